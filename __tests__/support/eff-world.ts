import { closeSync, existsSync, fsyncSync, openSync, readFileSync, rmSync, writeSync } from "node:fs";
import { dirname } from "node:path";
import { Annotation, START, StateGraph } from "@langchain/langgraph";
import type { TurnSaver, TurnSaverOptions } from "langgraph-checkpoint-turns";
import { tempFile } from "./temp";
import { openSaver } from "./open-saver";

const paths: string[] = [];

/** Removed by {@link closeAll}. */
export function fresh(): string {
  const path = tempFile();
  paths.push(path);
  return path;
}

/** What was really done, over all processes: only the functions of effects append to it, and each line is on the disk at once. */
export class Deeds {
  constructor(readonly path: string = `${fresh()}.deeds`) {}

  readonly do = (deed: string): void => {
    const file = openSync(this.path, "a");
    writeSync(file, `${deed}\n`);
    fsyncSync(file);
    closeSync(file);
  };

  lines(): string[] {
    return existsSync(this.path) ? readFileSync(this.path, "utf8").split("\n").filter(Boolean) : [];
  }

  count(deed: string): number {
    return this.lines().filter((line) => line === deed).length;
  }
}

export const Log = Annotation.Root({
  log: Annotation<string[]>({ reducer: (left, right) => left.concat(right), default: () => [] }),
});

export interface Warned {
  level: string;
  message: string;
}

export function quietLogger(into: Warned[] = []) {
  const at = (level: string) => (_data: object, message?: string) => void into.push({ level, message: message ?? "" });
  return { debug: at("debug"), info: at("info"), warn: at("warn"), error: at("error") };
}

const opened: TurnSaver[] = [];

/** Closed by {@link closeAll}, and opened on a {@link fresh} path removed with it. */
export function open(path: string, options: TurnSaverOptions = {}): TurnSaver {
  const saver = openSaver(path, { logger: quietLogger(), ...options });
  opened.push(saver);
  return saver;
}

export function closeAll(): void {
  for (const saver of opened.splice(0)) saver.close();
  for (const path of paths.splice(0)) rmSync(dirname(path), { recursive: true, force: true });
}

export const thread = (id = "t") => ({ configurable: { thread_id: id } });

export type NodeBody = (state: { log: string[] }, config: Record<string, unknown>) => unknown;

type AnyBuilder = StateGraph<typeof Log, typeof Log.State, typeof Log.Update, string>;

/** A builder of a line of nodes. */
export function line(nodes: Record<string, NodeBody>, options: Record<string, object> = {}): AnyBuilder {
  const builder = new StateGraph(Log) as unknown as AnyBuilder;
  let last: string = START;
  for (const [name, body] of Object.entries(nodes)) {
    builder.addNode(name, body as never, options[name] as never);
    builder.addEdge(last, name);
    last = name;
  }
  return builder;
}

export function attached(saver: TurnSaver, builder: AnyBuilder) {
  return saver.attach(builder.compile({ checkpointer: saver }));
}

/** What the saver told about effects: `begun charge #0`. */
export function told(saver: TurnSaver): string[] {
  const events: string[] = [];
  saver.events.on("effect", ({ what, effect }) => void events.push(`${what} ${effect.name} ${effect.label}`));
  return events;
}

/** What a promise was rejected with. */
export async function refusal(
  work: Promise<unknown>,
): Promise<{ code?: string; message: string; data?: Record<string, unknown>; cause?: unknown }> {
  return work.then(
    (value) => {
      throw new Error(`not refused: ${JSON.stringify(value)}`);
    },
    (error: unknown) => error as { code?: string; message: string },
  );
}
