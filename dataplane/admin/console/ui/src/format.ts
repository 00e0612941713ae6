// A value that is not known is a dash everywhere.
export const dash = "–";

type Maybe = number | null | undefined;
const known = (v: Maybe): v is number => typeof v === "number" && Number.isFinite(v);

function scaled(v: Maybe, step: number, units: string[]): string {
  if (!known(v)) return dash;
  let i = 0;
  while (Math.abs(v) >= step && i < units.length - 1) {
    v /= step;
    i++;
  }
  return (i || !Number.isInteger(v) ? v.toFixed(Math.abs(v) < 100 ? 1 : 0) : String(v)) + units[i];
}

export const count = (v: Maybe): string => (known(v) ? Math.round(v).toLocaleString("en") : dash);
export const short = (v: Maybe): string => scaled(v, 1000, ["", " k", " M", " G", " T"]);
export const bytes = (v: Maybe): string => scaled(v, 1024, [" B", " KiB", " MiB", " GiB", " TiB"]);
export const speed = (v: Maybe): string => (v ? scaled(v, 1000, [" B/s", " kB/s", " MB/s", " GB/s", " TB/s"]) : dash);
export const percent = (v: Maybe): string => (known(v) ? (100 * v).toFixed(v > 0 && v < 0.1 ? 1 : 0) + "%" : dash);

/** seconds writes a time that something takes. */
export function seconds(v: Maybe): string {
  if (!known(v)) return dash;
  const size = Math.abs(v);
  if (v === 0) return "0 s";
  if (size < 0.001) return (v * 1e6).toFixed(0) + " µs";
  if (size < 0.01) return (v * 1e3).toFixed(1) + " ms";
  if (size < 1) return (v * 1e3).toFixed(0) + " ms";
  if (size < 10) return v.toFixed(2) + " s";
  if (size < 100) return v.toFixed(1) + " s";
  return age(v);
}

/** age writes a time since something, in two units. */
export function age(v: Maybe): string {
  if (!known(v)) return dash;
  const s = Math.max(0, Math.floor(v));
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${s % 60} s`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor(s / 60) % 60} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor(s / 3600) % 24} h`;
}

/** since is the age of a time that the API wrote. */
export const since = (time: string): string => age((Date.now() - Date.parse(time)) / 1000);

/** plural: 1 worker, 2 workers. */
export const plural = (n: number, one: string, many = one + "s"): string => `${count(n)} ${n === 1 ? one : many}`;
