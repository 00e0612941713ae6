import { useEffect, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import { dash } from "./format";

export interface Line {
  label: string;
  color: string; // a CSS variable
  values: (number | null)[];
  dashed?: boolean;
  fill?: boolean;
}

interface Props {
  title: string;
  note?: string;
  at: number[];
  span: number; // seconds that the time axis shows
  lines: Line[];
  format: (v: number | null | undefined) => string;
  top?: number; // of the value axis, where it is fixed
  whole?: boolean; // values are counts
}

const heightNow = (): number => (innerWidth >= 2560 ? 230 : 150); // as style.css has it
const styleOf = (name: string): string => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** counts are the steps between ticks of whole numbers. */
const counts = [1, 10, 100, 1e3, 1e4, 1e5, 1e6].flatMap(n => [n, 2 * n, 5 * n]);

const clock = (span: number, t: number): string =>
  new Date(t * 1000).toLocaleTimeString("en-GB", span > 3600 ? { hour: "2-digit", minute: "2-digit" } : { hour: "2-digit", minute: "2-digit", second: "2-digit" });

/** last is the newest known value of a line, and nothing once the rows after it are empty. */
const last = (values: (number | null)[]): number | null | undefined => values.at(-1);

export function Chart({ title, note, at, span, lines, format, top, whole }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const [hover, setHover] = useState<number | null>(null);
  const shape = lines.map(l => l.label).join() + span;

  useEffect(() => {
    const host = box.current;
    if (!host) return;
    const make = (): void => {
      plot.current?.destroy();
      const axis = { stroke: styleOf("--soft-plain"), grid: { stroke: styleOf("--grid-plain"), width: 1 }, ticks: { show: false }, font: "11px system-ui, sans-serif" };
      plot.current = new uPlot({
        width: Math.max(host.clientWidth, 50),
        height: heightNow(),
        padding: [8, 8, 0, 0],
        legend: { show: false },
        cursor: { y: false, drag: { x: false, y: false }, sync: { key: "console" }, points: { size: 6 } },
        scales: {
          x: { range: (_u, _min, max) => [max - span, max] },
          y: { range: (_u, _min, max) => [0, top ?? (max > 0 ? max * 1.1 : 1)] },
        },
        axes: [
          { ...axis, size: 22, space: 70, values: (_u, ticks) => ticks.map(t => clock(3601, t)) },
          { ...axis, size: 58, space: 32, ...(whole && { incrs: counts }), values: (_u, ticks) => ticks.map(v => format(v)) },
        ],
        series: [{}, ...lines.map(l => {
          const color = styleOf(l.color);
          const series: uPlot.Series = { stroke: color, width: 1.5, points: { size: 4, fill: color } };
          if (l.dashed) series.dash = [5, 4];
          if (l.fill) series.fill = color + "30";
          return series;
        })],
        hooks: { setCursor: [u => setHover(u.cursor.idx ?? null)] },
      }, [at, ...lines.map(l => l.values)] as uPlot.AlignedData, host);
    };
    make();
    const resize = new ResizeObserver(() => plot.current?.setSize({ width: Math.max(host.clientWidth, 50), height: heightNow() }));
    resize.observe(host);
    const scheme = matchMedia("(prefers-color-scheme: dark)");
    scheme.addEventListener("change", make);
    return () => {
      resize.disconnect();
      scheme.removeEventListener("change", make);
      plot.current?.destroy();
      plot.current = null;
    };
  }, [shape]);

  useEffect(() => plot.current?.setData([at, ...lines.map(l => l.values)] as uPlot.AlignedData), [at]);

  const pointed = hover !== null && hover < at.length ? hover : null;
  const value = (l: Line): string => format(pointed === null ? last(l.values) : l.values[pointed]);
  const empty = !lines.some(l => l.values.some(v => v !== null));
  const spoken = empty ? "no data" : lines.map(l => `${l.label} ${format(last(l.values))}`).join(", ");
  return (
    <figure class="chart card">
      <figcaption>
        <h3>{title}</h3>
        <span class="note">{pointed === null ? note : clock(span, at[pointed] ?? 0)}</span>
        <ul class="legend">
          {lines.map(l => (
            <li key={l.label}>
              <i style={{ background: `var(${l.color})` }} class={l.dashed ? "dashed" : ""} />
              {l.label} <b>{empty ? dash : value(l)}</b>
            </li>
          ))}
        </ul>
      </figcaption>
      <div class="plot" ref={box} role="img" aria-label={`${title}: ${spoken}`}>
        {empty && <p class="nothing">{at.length ? "nothing to measure in this time" : "the first values come within seconds"}</p>}
      </div>
    </figure>
  );
}
