import { useEffect, useState } from "preact/hooks";

export interface Route {
  path: string; // "/", "/workers", "/workers/ID", "/explain"
  query: URLSearchParams;
}

function parse(): Route {
  const [path = "/", query = ""] = location.hash.replace(/^#/, "").split("?", 2);
  return { path: path || "/", query: new URLSearchParams(query) };
}

const changed = "warmpath:route"; // replaceState tells nobody

export function useRoute(): Route {
  const [route, set] = useState(parse);
  useEffect(() => {
    const follow = (): void => set(parse());
    addEventListener("hashchange", follow);
    addEventListener(changed, follow);
    return () => {
      removeEventListener("hashchange", follow);
      removeEventListener(changed, follow);
    };
  }, []);
  return route;
}

/** refine changes a part of the query, without a step in the browser's history. */
export function refine(route: Route, name: string, value: string): void {
  const query = new URLSearchParams(route.query);
  if (value) query.set(name, value);
  else query.delete(name);
  const text = query.toString();
  history.replaceState(null, "", "#" + route.path + (text ? "?" + text : ""));
  dispatchEvent(new Event(changed));
}
