import { useEffect, useState } from "preact/hooks";
import { ask, type Failure } from "./api";

const every = 2000;

/** usePoll reads a path for as long as a view is seen and `on`. Values stay while the router does not answer. */
export function usePoll<T>(path: string, on = true): { got: T | undefined; error: Failure | undefined; refresh: () => void } {
  const [got, setGot] = useState<T>();
  const [error, setError] = useState<Failure>();
  const [asked, setAsked] = useState(0);
  useEffect(() => {
    if (!on) return;
    let timer = 0, stopped = false;
    const poll = async (): Promise<void> => {
      try {
        if (!document.hidden) {
          const answer = await ask<T>(path);
          if (stopped) return;
          setGot(answer);
          setError(undefined);
        }
      } catch (e) {
        if (!stopped) setError(e as Failure);
      }
      if (!stopped) timer = window.setTimeout(() => void poll(), every);
    };
    void poll();
    return () => {
      stopped = true;
      clearTimeout(timer);
    };
  }, [path, on, asked]);
  return { got, error, refresh: () => setAsked(asked + 1) };
}
