import { useEffect, useState } from "preact/hooks";

export interface Route {
  path: string; // "/", "/workers", "/workers/ID", …
  view: string; // "workers"; "" of the overview
  id: string; // of the worker, the node or the choice; "": the list
  query: URLSearchParams;
}

/** decoded is the text of a part of an address; as it stands where that is not well formed. */
export function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

function parse(): Route {
  const [path = "/", query = ""] = location.hash.replace(/^#/, "").split("?", 2);
  const [, view = "", id = ""] = path.split("/");
  return { path: path || "/", view, id: decoded(id), query: new URLSearchParams(query) };
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
