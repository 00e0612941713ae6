// What an operator can do with a worker or a node; each action asks first.

import { useEffect, useRef, useState } from "preact/hooks";

export interface Action {
  title: string;
  ask: string; // what happens, in words
  danger?: boolean;
  run: () => Promise<unknown>;
}

export function Actions({ list, name, refresh }: { list: Action[]; name: string; refresh: () => void }) {
  const [action, setAction] = useState<Action | null>(null);
  return (
    <div class="actions">
      {list.map((a, i) => <button key={i} type="button" class={a.danger ? "danger" : ""} onClick={() => setAction(a)}>{a.title}…</button>)}
      {action && <Confirm action={action} name={name} done={changed => { setAction(null); if (changed) refresh(); }} />}
    </div>
  );
}

function Confirm({ action, name, done }: { action: Action; name: string; done: (changed: boolean) => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [error, setError] = useState("");
  const [busy, setBusy] = useState(false);
  useEffect(() => dialog.current?.showModal(), []);
  const changed = useRef(false);
  const run = async (): Promise<void> => {
    setBusy(true);
    try {
      await action.run();
      changed.current = true;
      dialog.current?.close();
    } catch (e) {
      setError((e as Error).message);
      setBusy(false);
    }
  };
  return (
    <dialog ref={dialog} aria-labelledby="confirm" onClose={() => done(changed.current)}>
      <h2 id="confirm">{action.title} {name}?</h2>
      <p>{action.ask}</p>
      {error && <p class="bad" role="alert">{error}</p>}
      <div class="actions">
        <button type="button" onClick={() => dialog.current?.close()}>Cancel</button>
        <button type="button" class={action.danger ? "danger" : "primary"} disabled={busy} onClick={() => void run()}>{action.title}</button>
      </div>
    </dialog>
  );
}
