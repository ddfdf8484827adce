import type { VNode } from "preact";
import { useMemo } from "preact/hooks";
import { ofThread } from "../addresses";
import type { Graph, GraphNode } from "../api";
import { unreachable, useAnswer } from "./ask";
import type { Placed, Way } from "./layout";
import { go, usePlace } from "./place";
import { Copy, Pill, Text } from "./text";
import { Loading, Trouble } from "./trouble";
import { listed, plural } from "./words";

const HEIGHT = 44;
const LETTER = 7.9;
const SMALL_LETTER = 5.9;

const STATES: Readonly<Record<GraphNode["state"], readonly [string, string]>> = {
  "not-run": ["not run", "plain"],
  done: ["done", "ok"],
  failed: ["failed", "bad"],
  waiting: ["waiting", "warn"],
  "in-flight": ["in flight", "fly"],
  running: ["running", "run"],
};

const isEnd = ({ id }: GraphNode): boolean => id.endsWith("__start__") || id.endsWith("__end__");
const nameOf = (node: GraphNode): string => (isEnd(node) ? (node.id.endsWith("__start__") ? "start" : "end") : node.name);

/** The second line in a node's box. */
const subOf = ({ state, attempts, failed, drifted }: GraphNode): string =>
  [
    state === "not-run" && attempts > 0 ? "not run in this task" : STATES[state][0],
    attempts > 1 ? plural(attempts, "attempt") : "",
    failed > 0 ? `${failed} failed` : "",
    drifted ? "drifted" : "",
  ]
    .filter((part) => part !== "")
    .join(" · ");

const widthOf = (node: GraphNode): number =>
  Math.max(92, Math.min(nameOf(node).length, 34) * LETTER + 30, isEnd(node) ? 0 : subOf(node).length * SMALL_LETTER + 22);

/** A file of its own, which is loaded once. Its name is what the server calls it. */
const layouter = (): Promise<typeof import("./layout.js")> =>
  import("./layout.js").catch((error: unknown) => {
    throw unreachable(error);
  });

/** The graph as it was recorded, with the path that the thread took. */
export function GraphView({ thread, tick }: { thread: string; tick: number }): VNode {
  const { inside } = usePlace();
  const { data, problem } = useAnswer<Graph>(ofThread(thread, "graph"), tick);
  const layout = useAnswer("/layout.js", 0, layouter);
  const parent = inside ?? null;
  const shown = useMemo(() => {
    const nodes = (data?.nodes ?? []).filter((node) => node.parent === parent);
    const used = nodes.filter((node) => !isEnd(node) || data?.edges.some(({ from, to }) => from === node.id || to === node.id));
    return layout.data?.placed(used, data?.edges ?? [], { widthOf, height: HEIGHT });
  }, [data, layout.data, parent]);
  const trouble = problem ?? layout.problem;
  if (trouble !== undefined) return <Trouble problem={trouble} />;
  if (data === undefined || shown === undefined) return <Loading what="the graph" />;
  const ran = shown.nodes.filter(({ node }) => node.attempts > 0).map(({ node }) => nameOf(node));
  const children = (node: GraphNode): number => data.nodes.filter((other) => other.parent === node.id).length;
  return (
    <section class="view scroll graph" aria-label="Graph" tabIndex={0}>
      <p class="bar-line">
        {parent !== null && (
          <button
            type="button"
            class="quiet"
            onClick={() => go({ inside: parent.includes("|") ? parent.slice(0, parent.lastIndexOf("|")) : undefined })}
          >
            ‹ out of <Text of={parent} />
          </button>
        )}
        <span class="dim">
          {data.digest === null
            ? "No graph was recorded: these are the nodes that ran."
            : "As it was recorded. Strong lines: the way that the newest task took."}
          {data.versions > 1 && ` ${data.versions} different graphs ran on this thread; this is the newest.`}
        </span>
        {data.mermaid !== "" && <Copy text={data.mermaid} what="Copy as Mermaid" />}
      </p>
      {data.drift.with !== null && (
        <div class={`card drift${data.drift.drifted ? " doubt" : ""}`}>
          <h3 class="top">
            {data.drift.drifted ? "Drifted" : "Nothing drifted"}
            <span class="dim">
              compared with {data.drift.with === "module" ? "the graph of --graph" : "the newest recorded graph"}
            </span>
          </h3>
          {data.drift.words.length > 0 && (
            <ul class="body">
              {data.drift.words.map((words) => (
                <li key={words}>
                  <Text of={words} />
                </li>
              ))}
            </ul>
          )}
        </div>
      )}
      <svg
        role="group"
        aria-labelledby="graph-title graph-desc"
        viewBox={shown.view.join(" ")}
        width={shown.view[2]}
        height={shown.view[3]}
        class="drawing"
      >
        <title id="graph-title">Graph of thread {thread}</title>
        <desc id="graph-desc">
          {plural(shown.nodes.length, "node")}, {plural(shown.ways.length, "edge")}.{" "}
          {ran.length === 0 ? "None ran." : `Ran: ${listed(ran)}.`}
        </desc>
        <defs>
          {["plain", "taken"].map((kind) => (
            <marker
              key={kind}
              id={`tip-${kind}`}
              viewBox="0 0 8 8"
              refX="7"
              refY="4"
              markerWidth="7"
              markerHeight="7"
              orient="auto-start-reverse"
            >
              <path d="M0 0 8 4 0 8z" class={`tip ${kind}`} />
            </marker>
          ))}
        </defs>
        {shown.ways.map(({ edge, points }, index) => (
          <Edge key={index} edge={edge} points={points} />
        ))}
        {shown.nodes.map((at) => (
          <Node key={at.node.id} at={at} inside={children(at.node)} />
        ))}
      </svg>
    </section>
  );
}

function Edge({ edge, points }: Way): VNode {
  const [first, ...rest] = points;
  const path = first === undefined ? "" : `M${first.x} ${first.y}${curve(points)}`;
  const middle = rest[Math.floor(rest.length / 2) - (rest.length > 1 ? 1 : 0)];
  return (
    <g aria-hidden="true">
      <path
        d={path}
        class={`edge ${edge.kind}${edge.taken > 0 ? " taken" : ""}`}
        marker-end={`url(#tip-${edge.taken > 0 ? "taken" : "plain"})`}
      />
      {edge.label !== null && middle !== undefined && (
        <text x={middle.x + 6} y={middle.y} class="edge-label">
          {edge.label.slice(0, 40)}
        </text>
      )}
      {edge.taken > 1 && middle !== undefined && (
        <text x={middle.x - 6} y={middle.y} class="edge-label" text-anchor="end">
          {edge.taken}×
        </text>
      )}
    </g>
  );
}

/** A smooth line through the points. */
function curve(points: readonly { x: number; y: number }[]): string {
  return points
    .slice(1)
    .map((point, index) => {
      const before = points[index] ?? point;
      const half = (before.y + point.y) / 2;
      return `C${before.x} ${half} ${point.x} ${half} ${point.x} ${point.y}`;
    })
    .join("");
}

function Node({ at: { node, x, y, width }, inside }: { at: Placed; inside: number }): VNode {
  const [, kind] = STATES[node.state];
  const isBare = isEnd(node);
  const name = nameOf(node);
  const box = (
    <>
      <rect x={x - width / 2} y={y - HEIGHT / 2} width={width} height={HEIGHT} rx={isBare ? HEIGHT / 2 : 9} />
      <text x={x} y={isBare ? y + 4 : y - 2} text-anchor="middle" class="name">
        {name.length > 34 ? `${name.slice(0, 33)}…` : name}
      </text>
      {!isBare && (
        <text x={x} y={y + 13} text-anchor="middle" class="sub">
          {` ${subOf(node)}`}
        </text>
      )}
    </>
  );
  const classes = `node-box ${isBare ? "bare" : kind}${node.drifted ? " drifted" : ""}`;
  if (isBare) return <g class={classes}>{box}</g>;
  const act = (): void => {
    if (inside > 0) go({ inside: node.id });
    else if (node.number !== null) go({ turn: String(node.number) });
  };
  const pressed = (event: KeyboardEvent): void => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    act();
  };
  return (
    <g
      class={classes}
      role="button"
      tabindex={0}
      aria-label={`${name} ${subOf(node)}, ${inside > 0 ? `zoom into ${plural(inside, "node")}` : node.number === null ? "has no turn" : "show its newest turn"}`}
      onClick={act}
      onKeyDown={pressed}
    >
      {box}
      {inside > 0 && (
        <path d={`M${x + width / 2 - 16} ${y - 8}v-6h6M${x + width / 2 - 8} ${y - 12}v6h-6`} class="edge" aria-hidden="true" />
      )}
    </g>
  );
}

/** The states of nodes, for those who don't tell colours apart. */
export function GraphKey(): VNode {
  return (
    <p class="legend" aria-hidden="true">
      {Object.values(STATES).map(([words, kind]) => (
        <Pill key={words} kind={kind}>
          {words}
        </Pill>
      ))}
    </p>
  );
}
