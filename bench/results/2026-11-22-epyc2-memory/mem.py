#!/usr/bin/env python3
"""mem.py NAME=BINARY... --rounds N --cases ids ids-ev text text-ev : peaks; alternates. Samples status each 50ms; smaps breakdown near the peak."""
import argparse, json, os, re, subprocess, sys, time, urllib.request, socket, fcntl, statistics
def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1",0)); return s.getsockname()[1]
def status(pid):
    d={}
    for l in open(f"/proc/{pid}/status"):
        k,_,v=l.partition(":")
        if k in("VmRSS","VmHWM","RssAnon","RssFile","RssShmem","Threads","VmPTE","VmStk"): d[k]=int(v.split()[0])
    return d
def smaps(pid):
    cats={}
    cur=None
    for l in open(f"/proc/{pid}/smaps"):
        f=l.split()
        if re.match(r"^[0-9a-f]+-[0-9a-f]+$",f[0]):
            path=f[5] if len(f)>5 else ""
            perm=f[1]; start=int(f[0].split("-")[0],16)
            if "warmpath" in path: cur="exe "+perm
            elif path=="[heap]": cur="brk heap"
            elif path.startswith("[stack"): cur="stack"
            elif path.startswith("[anon: Go"): cur=path+" "+" ".join(f[6:])
            elif path.startswith("/"): cur="libs "+("file" if perm[1]!="w" else "rw")
            elif 0xc000000000<=start<0xd000000000: cur="go heap (c000)"
            elif start<0x10000000: cur="exe bss"
            else: cur="anon other"
        elif f[0]=="Rss:" : cats[cur]=cats.get(cur,0)+int(f[1])
        elif f[0]=="AnonHugePages:" and int(f[1]): cats["  THP in "+cur]=cats.get("  THP in "+cur,0)+int(f[1])
    return cats
class P:
    def __init__(s,cmd,cores,out=None,log=None,env=None):
        def prep():
            os.sched_setaffinity(0,cores)
        e=dict(os.environ); e.update(env or {})
        s.p=subprocess.Popen(cmd,stdout=out or subprocess.DEVNULL,stderr=open(log or os.devnull,"w"),preexec_fn=prep,text=True,env=e)
    def stop(s):
        s.p.terminate()
        try: s.p.wait(15)
        except subprocess.TimeoutExpired: s.p.kill(); s.p.wait()
def run(binary,case,a,tool,env):
    events=case.endswith("-ev"); api=case.split("-")[0]
    m=P([tool,"bench","proxy","mock","--listen","127.0.0.1:0","--workers","4","--page-size","16"]+(["--events","--tokenize"] if events else []),{1},out=subprocess.PIPE)
    ws=json.loads(m.p.stdout.readline())["workers"]
    port=free_port()
    flags=[x for w in ws for x in("--worker","http://"+w)]
    r=P([binary,"serve","--listen",f"127.0.0.1:{port}","--log-level","warn",*flags],{0},env=env)
    pid=r.p.pid
    try:
        for _ in range(600):
            try:
                q=urllib.request.Request(f"http://127.0.0.1:{port}/v1/chat/completions",json.dumps({"model":"mock","messages":[{"role":"user","content":"hello"}],"max_tokens":2}).encode(),{"Content-Type":"application/json"})
                if urllib.request.urlopen(q,timeout=5).status==200: break
            except OSError: pass
            time.sleep(.05)
        time.sleep(a.idle)
        idle=status(pid); idles=smaps(pid) if a.smaps else None
        if a.only_idle: return {"idle":idle,"idle_smaps":idles}
        open(f"/proc/{pid}/clear_refs","w").write("5")
        c=P([tool,"bench","proxy","--url",f"127.0.0.1:{port}","--json","-","--api",api,"--size","64k","--connections","32","--warm","0s","--time",a.time,"--pid",str(pid)],{1},out=subprocess.PIPE)
        best={"VmRSS":0}; bests=None
        t0=time.time()
        while c.p.poll() is None:
            st=status(pid)
            if st["VmRSS"]>best["VmRSS"]:
                best=st
                if a.smaps and st["VmRSS"]>30000 and time.time()-t0>3: bests=smaps(pid)
            time.sleep(.03)
        out=json.loads(c.p.stdout.read())
        end=status(pid); best["HWM"]=end["VmHWM"]
        time.sleep(a.rest)
        after=status(pid)
        return {"idle":idle,"idle_smaps":idles,"peak":best,"peak_smaps":bests,"after":after,"ok":out["ok"],"failed":out["failed"],"rate":out["rate"],"cpu":out["cpu_us"]}
    finally:
        r.stop(); m.stop()
def main():
    p=argparse.ArgumentParser(); p.add_argument("bins",nargs="+"); p.add_argument("--rounds",type=int,default=1); p.add_argument("--cases",nargs="*",default=["ids","text","ids-ev","text-ev"])
    p.add_argument("--time",default="9s"); p.add_argument("--idle",type=float,default=3); p.add_argument("--smaps",action="store_true"); p.add_argument("--rest",type=float,default=0); p.add_argument("--tool",required=True); p.add_argument("--lock",default=os.devnull); p.add_argument("--only-idle",action="store_true"); p.add_argument("--out"); p.add_argument("--env",nargs="*",default=[])
    a=p.parse_args()
    env=dict(x.split("=",1) for x in a.env)
    bins=[b.split("=",1) for b in a.bins]; res={}
    for i in range(a.rounds):
        for case in a.cases:
            for name,path in (bins if i%2==0 else bins[::-1]):
                with open(a.lock,"a") as f:
                    fcntl.flock(f,fcntl.LOCK_EX)
                    x=run(path,case,a,a.tool,env)
                res.setdefault((case,name),[]).append(x)
                if a.out: open(a.out,"a").write(json.dumps({"round":i,"case":case,"name":name,**x})+"\n")
                M=lambda k:k/1024
                if a.only_idle: print(case,name,"idle %.1f anon %.1f file %.1f"%(M(x["idle"]["VmRSS"]),M(x["idle"]["RssAnon"]),M(x["idle"]["RssFile"])),flush=True)
                else: print(f"{case:8} {name:10} idle %.1f (anon %.1f file %.1f) peak %.1f (anon %.1f file %.1f) hwm %.1f after %.1f  ok %d fail %d %.0f/s %.0f us"%(M(x["idle"]["VmRSS"]),M(x["idle"]["RssAnon"]),M(x["idle"]["RssFile"]),M(x["peak"]["VmRSS"]),M(x["peak"]["RssAnon"]),M(x["peak"]["RssFile"]),M(x["peak"]["HWM"]),M(x["after"]["VmRSS"]),x["ok"],x["failed"],x["rate"],x["cpu"]),flush=True)
                if a.smaps:
                    for k in("idle_smaps","peak_smaps"):
                        if x.get(k): print("   ",k,{c:round(v/1024,2) for c,v in sorted(x[k].items(),key=lambda t:-t[1]) if v>=100})
    if not a.only_idle and a.rounds>1:
        for k,v in res.items():
            print(k,"median hwm %.1f min %.1f max %.1f idle %.1f cpu %.0f"%(statistics.median(x["peak"]["HWM"] for x in v)/1024,min(x["peak"]["HWM"] for x in v)/1024,max(x["peak"]["HWM"] for x in v)/1024,statistics.median(x["idle"]["VmRSS"] for x in v)/1024,statistics.median(x["cpu"] for x in v)))
main()
