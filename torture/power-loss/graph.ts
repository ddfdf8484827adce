import { createHash } from "node:crypto";
import { Annotation, type BaseCheckpointSaver, START, StateGraph } from "@langchain/langgraph";
import type { GraphRunnerOptions, Undos } from "langgraph-checkpoint-turns";
import { seeded, textOf } from "../../bench/drive/words";
import { effectUndoneBy, undosNamed } from "../../__tests__/support/undo-world";

/** What each job does to the world, and the node that does it. */
export const DEEDS = ["book", "charge", "notify"] as const;
const BOOKED = 6;
const TEXT_BYTES = 900;

export interface Entry {
  /** `node job n` */
  id: string;
  text: string;
}

export interface JobsState {
  jobs: string[];
  log: Entry[];
}

/** The outside world: a simulated power cut loses nothing there. */
export interface World {
  did: (deed: string, job: string, key: string) => void;
  undid: (deed: string, job: string, key: string) => void;
  isDone: (key: string) => boolean;
  isUndone: (key: string) => boolean;
}

/** Performs a side effect of a job; what it returns is put into the state. */
export type Act = (deed: string, job: string) => Promise<string>;

const State = Annotation.Root({
  jobs: Annotation<string[]>({ reducer: (left, right) => left.concat(right), default: () => [] }),
  log: Annotation<Entry[]>({ reducer: (left, right) => left.concat(right), default: () => [] }),
});

/** plan → (book ∥ charge) → notify for each job; the log grows by several kilobytes with each. */
export function jobsGraph(saver: BaseCheckpointSaver, act: Act) {
  const job = ({ jobs }: JobsState): string => jobs.at(-1) ?? "";
  const deed = (name: string, more: number) => async (state: JobsState) => {
    const receipt = await act(name, job(state));
    return { log: [{ id: `${name} ${job(state)}`, text: receipt }, ...entries(name, job(state), more)] };
  };
  return new StateGraph(State)
    .addNode("plan", (state) => ({ log: entries("plan", job(state), 1) }))
    .addNode("book", deed("book", BOOKED))
    .addNode("charge", deed("charge", 0))
    .addNode("notify", deed("notify", 1))
    .addEdge(START, "plan")
    .addEdge("plan", "book")
    .addEdge("plan", "charge")
    .addEdge(["book", "charge"], "notify")
    .compile({ checkpointer: saver });
}

/** Side effects as effects, each with an undo, and with a probe that looks into the world. */
export function journaled(world: World): Act {
  return (deed, job) => {
    const act = (key: string): string => {
      world.did(deed, job, key);
      return receipt(deed, job);
    };
    const probe = (key: string): string | undefined => (world.isDone(key) ? receipt(deed, job) : undefined);
    return effectUndoneBy("undo", deed, act, { input: { deed, job }, probe });
  };
}

function undosIn(world: World): Undos {
  return undosNamed({
    undo: {
      run: ({ key, input }) => {
        const { deed, job } = input as { deed: string; job: string };
        if (world.isDone(key)) world.undid(deed, job, key);
      },
      probe: ({ key }) => world.isUndone(key) || !world.isDone(key),
      whenInDoubt: true,
    },
  });
}

/** Labels instead of the nodes' source: the process that continues may have been compiled differently from the writer. */
export function runnerOptions(world: World): GraphRunnerOptions {
  const node = { version: "1" };
  return {
    undos: undosIn(world),
    nodes: { plan: node, book: node, charge: node, notify: node },
    stateVersion: "1",
    drift: "refuse",
    onCorrupted: "refuse",
  };
}

export function receipt(deed: string, job: string): string {
  return `receipt of ${deed} for ${job}`;
}

/** What is wrong with a log, given the jobs that are finished; undefined if it is what a run without a power cut gives. */
export function wrongLog({ jobs, log }: JobsState): string | undefined {
  const expected = jobs.flatMap((job) => [
    ...entries("plan", job, 1),
    ...DEEDS.slice(0, 2).flatMap((deed) => ownEntries(deed, job)),
    ...ownEntries("notify", job),
  ]);
  if (JSON.stringify(expected) === JSON.stringify(log)) return undefined;
  return `after the jobs ${jobs.join()} the log is ${log.map(({ id }) => id).join("; ")}`;
}

function ownEntries(deed: string, job: string): Entry[] {
  const more = { book: BOOKED, charge: 0, notify: 1 }[deed] ?? 0;
  return [{ id: `${deed} ${job}`, text: receipt(deed, job) }, ...entries(deed, job, more)];
}

function entries(node: string, job: string, count: number): Entry[] {
  const random = seeded(createHash("sha256").update(`${node} ${job}`).digest().readUInt32LE());
  return Array.from({ length: count }, (_, at) => ({ id: `${node} ${job} ${at}`, text: textOf(random, TEXT_BYTES) }));
}
