import type { Branches, BranchPoint, BranchRewind } from "../inspection/branches";
import type { Look } from "./look";
import { ago, cut, oneLine, widthOf } from "./text";

/** A line of the drawing: its lanes, and what is told beside them. */
type Line = readonly [lanes: string, text: string];

/** Draws checkpoints as git draws commits: newest first, a lane for each branch. */
export function drawn({ checkpoints, rewinds }: Branches, look: Look): string {
  /** By lane, the checkpoint that comes next in it. */
  const lanes: (string | null)[] = [];
  const lines: Line[] = [];
  const waiting = [...rewinds];
  for (const point of checkpoints) {
    for (let next = waiting[0]; next !== undefined && next.number > point.number; next = waiting[0]) {
      lines.push([lanes.map(() => "|").join(" "), rewindText(next, look)]);
      waiting.shift();
    }
    draw(point.checkpointId, "*", pointText(point, look), point.parentId);
    // Whether the next one is an ancestor, nobody knows any more. Those with the same parent belong together.
    const { parentId, parentGone } = point;
    if (parentGone && parentId !== null && checkpoints.findLast((one) => one.parentId === parentId) === point)
      draw(parentId, ":", look.paint("dim", "what came before isn't kept"), null);
  }
  for (const rewind of waiting) lines.push([lanes.map(() => "|").join(" "), rewindText(rewind, look)]);
  return lines.map(([graph, text]) => fitted(graph, text, look)).join("\n");

  function draw(id: string, mark: string, text: string, parentId: string | null): void {
    const [at = lanes.length, ...joining] = lanes.flatMap((next, lane) => (next === id ? [lane] : []));
    for (const lane of joining.reverse()) {
      lines.push([
        lanes
          .map((_, other) => (other === lane ? "" : "|"))
          .join(" ")
          .slice(0, 2 * lane - 1) + `/${" |".repeat(lanes.length - lane - 1)}`,
        "",
      ]);
      lanes.splice(lane, 1);
    }
    if (at === lanes.length) lanes.push(id);
    lines.push([lanes.map((_, lane) => (lane === at ? mark : "|")).join(" "), text]);
    if (parentId === null) lanes.splice(at, 1);
    else lanes[at] = parentId;
  }
}

function pointText({ checkpointId, number, source, nodes, names, taskId, at }: BranchPoint, look: Look): string {
  const what = nodes.length > 0 ? nodes.join(", ") : source;
  const named = names.length === 0 ? "" : ` ${look.paint("green", `(${oneLine(names.join(", "))})`)}`;
  const rest = look.paint("dim", oneLine(`${taskId === null ? "" : `${taskId}, `}${ago(at, look.now)}`));
  return `${look.paint("yellow", `#${number}`)} ${oneLine(what)}${named}  ${rest}  ${look.paint("dim", checkpointId)}`;
}

function rewindText({ number, toTask, takenBack, at }: BranchRewind, look: Look): string {
  const text = `#${number} rewound to task ${toTask}${takenBack ? ", and taken back" : ""}`;
  return `${look.paint("red", oneLine(text))}  ${look.paint("dim", ago(at, look.now))}`;
}

/** What doesn't fit is cut; its colours are lost then. */
function fitted(graph: string, text: string, { width }: Look): string {
  const line = text === "" ? graph.trimEnd() : `${graph} ${text}`;
  // eslint-disable-next-line no-control-regex -- colours
  return widthOf(line) <= width ? line : cut(line.replaceAll(/\u001b\[[0-9;]*m/g, ""), width);
}
