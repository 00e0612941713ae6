import { render } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import "uplot/dist/uPlot.min.css";
import "./style.css";
import { ask, Failure, setKey, type Report, type Status } from "./api";
import { Choices, Chosen } from "./choices";
import { Explain } from "./explain";
import { age } from "./format";
import { Index } from "./index";
import { Links } from "./links";
import { Node, NodeList } from "./nodes";
import { Overview } from "./overview";
import { Prompts } from "./prompts";
import { useRoute } from "./route";
import { OtherPolicies } from "./whatif";
import { Worker } from "./worker";
import { Workers } from "./workers";

const views: [string, string][] = [["", "Overview"], ["workers", "Workers"], ["choices", "Choices"], ["whatif", "What if"], ["index", "Index"], ["prompts", "Prompts"], ["nodes", "Nodes"], ["links", "Links"]];
const many = 200; // workers; beyond them /status is read every two seconds
const historyEvery = 5000; // as rows are made

interface Lost {
  since: Date;
  reason: string;
}

/** useRouter reads /status and /history for as long as the page is seen. */
function useRouter() {
  const [status, setStatus] = useState<Status | null>(null);
  const [past, setPast] = useState<Report>();
  const [lost, setLost] = useState<Lost | null>(null);
  const [locked, setLocked] = useState(false);
  const again = useRef<() => void>(() => {});
  useEffect(() => {
    let timer = 0, readPast = 0, stopped = false, running = false;
    const poll = async (): Promise<void> => {
      if (running) return;
      running = true;
      clearTimeout(timer);
      let wait = 1000;
      try {
        const got = await ask<Status>("/status");
        if (got.workers.length > many) wait = 2000;
        setStatus(got);
        if (performance.now() - readPast > historyEvery - 500) {
          readPast = performance.now();
          setPast(await ask<Report>("/history"));
        }
        setLost(null);
        setLocked(false);
      } catch (e) {
        const f = e as Failure;
        setLocked(f.status === 401);
        setLost(old => ({ since: old?.since ?? new Date(), reason: f.message }));
      }
      running = false;
      if (!stopped) timer = window.setTimeout(() => void poll(), document.hidden ? 10_000 : wait);
    };
    const seen = (): void => { if (!document.hidden) void poll(); };
    again.current = () => void poll();
    document.addEventListener("visibilitychange", seen);
    void poll();
    return () => {
      stopped = true;
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", seen);
    };
  }, []);
  return { status, past, lost, locked, refresh: () => again.current() };
}

function KeyForm({ refresh, given }: { refresh: () => void; given: boolean }) {
  const [value, setValue] = useState("");
  return (
    <form class="card key" onSubmit={e => { e.preventDefault(); setKey(value); refresh(); }}>
      <h1>Operator key</h1>
      <p class="note">{given ? "The router refused this key." : "The operator API needs its key, which serve got with --operator-key. It is kept for this tab only."}</p>
      <label>Key <input type="password" autocomplete="current-password" value={value} onInput={e => setValue(e.currentTarget.value)} /></label>
      <button type="submit" class="primary">Open</button>
    </form>
  );
}

function Page() {
  const { status, past, lost, locked, refresh } = useRouter();
  const route = useRoute();
  const { view: at, id } = route;
  const main = useRef<HTMLElement>(null);
  useEffect(() => {
    const name = id || views.find(v => v[0] === at)?.[1] || "Overview";
    document.title = `${name} · Warmpath`;
    scrollTo(0, 0);
  }, [route.path]);
  let view;
  if (locked) view = <KeyForm refresh={refresh} given={sessionStorage.getItem("key") !== null} />;
  else if (!status) view = <p class="card nothing">{lost ? "" : "Reading the router's state…"}</p>;
  else if (at === "workers" && id) view = <Worker key={id} status={status} id={id} refresh={refresh} />;
  else if (at === "workers") view = <Workers status={status} route={route} />;
  else if (at === "choices" && id) view = <Chosen key={id} number={id} />;
  else if (at === "choices") view = <Choices route={route} />;
  else if (at === "whatif") view = <OtherPolicies />;
  else if (at === "nodes" && id) view = <Node key={id} name={id} status={status} />;
  else if (at === "nodes") view = <NodeList route={route} />;
  else if (at === "links") view = <Links status={status} route={route} />;
  else if (at === "index") view = <Index status={status} />;
  else if (at === "prompts") view = <Prompts status={status} />;
  else if (at === "explain") view = <Explain status={status} />;
  else view = <Overview status={status} past={past} />;
  return (
    <>
      <a class="skip" href="#main" onClick={e => { e.preventDefault(); main.current?.focus(); }}>Skip to content</a>
      <header>
        <a class="brand" href="#/"><i aria-hidden="true" />Warmpath</a>
        <nav aria-label="Views">{views.map(([path, name]) => <a key={path} href={"#/" + path} aria-current={path === (at === "explain" ? "choices" : at) ? "page" : undefined}>{name}</a>)}</nav>
        <p class="about">{status && <><span>{status.version}</span><span>policy {status.policy}</span><span>up {age(status.uptime_seconds)}</span></>}</p>
      </header>
      {lost && !locked && <div class="lost" role="alert"><b>No answer of the router since {lost.since.toLocaleTimeString("en-GB")}</b> ({lost.reason}).{status ? " What follows is of that time." : ""}</div>}
      <main id="main" ref={main} tabIndex={-1} class={lost && !locked ? "stale" : ""}>{view}</main>
    </>
  );
}

render(<Page />, document.getElementById("page")!);
