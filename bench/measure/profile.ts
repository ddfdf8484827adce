import { existsSync, readFileSync } from "node:fs";
import { type Profiler, Session } from "node:inspector/promises";
import { SourceMap } from "node:module";
import { fileURLToPath } from "node:url";
import { timedWithCpu } from "./clock";

const SAMPLE_US = 100;

/** A place in the code that was on the stack. */
export interface Frame {
  name: string;
  /** The source file, as a path below the repository if it's a part of it; empty for what is in native code. */
  file: string;
}

/** How much processor time was spent in each stack, innermost frame first. */
export type Profile = readonly { stack: readonly Frame[]; ms: number }[];

const IDLE = /^\((idle|program|root)\)$/;

/**
 * Runs work with V8's CPU profiler, and shares out its processor time by the number of samples: the time between two samples also has what
 * other processes took.
 */
export async function profiled(work: () => Promise<void>): Promise<Profile> {
  const session = new Session();
  session.connect();
  await session.post("Profiler.enable");
  await session.post("Profiler.setSamplingInterval", { interval: SAMPLE_US });
  await session.post("Profiler.start");
  const { cpu } = await timedWithCpu(work);
  const { profile } = await session.post("Profiler.stop");
  session.disconnect();
  return stacksOf(profile, cpu);
}

function stacksOf({ nodes, samples = [] }: Profiler.Profile, cpu: number): Profile {
  const counts = new Map<number, number>();
  const idle = new Set(nodes.flatMap(({ id, callFrame }) => (IDLE.test(callFrame.functionName) ? id : [])));
  for (const id of samples) if (!idle.has(id)) counts.set(id, (counts.get(id) ?? 0) + 1);
  const msPerSample = cpu / [...counts.values()].reduce((sum, count) => sum + count, 0);
  const byId = new Map(nodes.map((node) => [node.id, node]));
  const parents = new Map(nodes.flatMap(({ id, children = [] }) => children.map((child) => [child, id] as const)));
  const frames = new Map<string, Frame>();
  return [...counts].map(([id, count]) => {
    const stack: Frame[] = [];
    for (let at: number | undefined = id; at !== undefined; at = parents.get(at)) {
      const { callFrame } = byId.get(at)!;
      const key = JSON.stringify(callFrame);
      const frame = frames.get(key) ?? frameOf(callFrame);
      frames.set(key, frame);
      stack.push(frame);
    }
    return { stack, ms: count * msPerSample };
  });
}

const ROOT = new URL("../../", import.meta.url).href;
const maps = new Map<string, SourceMap | undefined>();

function frameOf({
  functionName: name,
  url,
  lineNumber,
  columnNumber,
}: {
  functionName: string;
  url: string;
  lineNumber: number;
  columnNumber: number;
}): Frame {
  if (!url.startsWith(`${ROOT}dist/`)) return { name, file: url.startsWith(ROOT) ? url.slice(ROOT.length) : url };
  const entry = mapOf(url)?.findEntry(lineNumber, columnNumber);
  const source = entry !== undefined && "originalSource" in entry ? entry.originalSource : url;
  return { name, file: source.replace(/^.*\/(?=src\/)/, "").replace(/^\.\.\//, "") };
}

function mapOf(url: string): SourceMap | undefined {
  if (!maps.has(url)) {
    const path = `${fileURLToPath(url)}.map`;
    maps.set(url, existsSync(path) ? new SourceMap(JSON.parse(readFileSync(path, "utf8")) as never) : undefined);
  }
  return maps.get(url);
}
