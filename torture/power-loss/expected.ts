import { type Ack, effectFact, type Facts, holds, parseAck, THERE, undoFact } from "./facts";
import type { Operation } from "./disk";

/** Side effects that were done, and undone. */
export interface Deed {
  t: string;
  what: "deed" | "undo";
  deed: string;
  job: string;
  key: string;
}

interface Underway {
  what: string;
  whole: boolean;
  /** Its result, which the trace shows after the cut. */
  target: Facts | undefined;
}

export interface ExpectedThread {
  /** What was acknowledged and not since removed by an acknowledged operation. */
  facts: Facts;
  /** What an acknowledged operation removed. */
  removed: Set<string>;
  underway: Underway | undefined;
}

/** What to expect after a cut. */
export interface Expected {
  isOpened: boolean;
  threads: Map<string, ExpectedThread>;
  deeds: Deed[];
  acks: number;
}

/** What was acknowledged before operation `cut`, and what was in progress. */
export function expectedAt(operations: readonly Operation[], cut: number): Expected {
  const expected: Expected = { isOpened: false, threads: new Map(), deeds: [], acks: 0 };
  for (const [at, operation] of operations.entries()) {
    if (operation.kind !== "ack") continue;
    const ack = parseAck(operation.line);
    if (at < cut) acknowledged(expected, ack);
    else if (ack.k === "stands") {
      const underway = expected.threads.get(ack.t)?.underway;
      if (underway !== undefined) underway.target ??= new Map(ack.facts);
    }
  }
  return expected;
}

function acknowledged(expected: Expected, ack: Ack): void {
  expected.acks += 1;
  switch (ack.k) {
    case "opened":
      expected.isOpened = true;
      return;
    case "closed":
    case "end":
      return;
    case "deed":
    case "undo": {
      expected.deeds.push({ ...ack, what: ack.k });
      // A side effect must be in the journal, or nobody would know that it may have happened.
      const facts = threadOf(expected, ack.t).facts;
      const fact = ack.k === "deed" ? effectFact(ack.key) : undoFact(ack.key);
      if (!facts.has(fact)) facts.set(fact, THERE);
      return;
    }
    case "fact":
      threadOf(expected, ack.t).facts.set(ack.fact, ack.as);
      return;
    case "begins":
      threadOf(expected, ack.t).underway = { what: ack.what, whole: ack.whole, target: undefined };
      return;
    case "stands": {
      const thread = threadOf(expected, ack.t);
      const facts: Facts = new Map(ack.facts);
      for (const fact of thread.facts.keys()) if (!facts.has(fact)) thread.removed.add(fact);
      for (const fact of facts.keys()) thread.removed.delete(fact);
      Object.assign(thread, { facts, underway: undefined });
    }
  }
}

function threadOf({ threads }: Expected, id: string): ExpectedThread {
  const thread = threads.get(id) ?? { facts: new Map(), removed: new Set(), underway: undefined };
  threads.set(id, thread);
  return thread;
}

/** What a thread lost, or has again: only an operation in progress may remove facts or add them. */
export function lostOf({ facts, removed, underway }: ExpectedThread, found: Facts): string[] {
  const mayGo = (fact: string): boolean => underway !== undefined && underway.target?.has(fact) !== true;
  const mayCome = (fact: string): boolean => underway?.target?.has(fact) === true;
  const lost = [...facts].filter(([fact, as]) => !holds(fact, as, found.get(fact)) && !mayGo(fact));
  const back = [...removed].filter((fact) => found.has(fact) && !mayCome(fact));
  const newest = underway?.whole === false ? newestOf(facts) : undefined;
  return [
    ...(newest === undefined || found.has(newest) ? [] : [`${newest} is the newest, and was pruned`]),
    ...lost.map(([fact, as]) => `${fact} was acknowledged as ${as} and is ${found.get(fact) ?? "not there"}`),
    ...back.map((fact) => `${fact} was removed, as acknowledged, and is there again`),
  ];
}

/** Of the root namespace. It stays, no matter what is pruned meanwhile. */
function newestOf(facts: Facts): string | undefined {
  return [...facts.keys()]
    .filter((fact) => fact.startsWith("checkpoint /"))
    .sort()
    .at(-1);
}

/**
 * What is half done of an operation that is one transaction. Of all that it removes, either everything must be there as it was
 * acknowledged, or nothing. Of all that it adds, everything or nothing.
 */
export function halfDoneOf({ facts, underway }: ExpectedThread, found: Facts): string[] {
  if (underway?.whole !== true || underway.target === undefined) return [];
  const { target, what } = underway;
  const isRow = (fact: string): boolean => !fact.startsWith("rewind ") && !fact.startsWith("undo ");
  const goes = [...facts].filter(([fact]) => isRow(fact) && !target.has(fact));
  const comes = [...target.keys()].filter((fact) => isRow(fact) && !facts.has(fact));
  const stayed = goes.filter(([fact, as]) => holds(fact, as, found.get(fact))).length;
  const gone = goes.filter(([fact]) => !found.has(fact)).length;
  const came = comes.filter((fact) => found.has(fact)).length;
  const isDone = gone === goes.length && came === comes.length;
  const isBefore = stayed === goes.length && came === 0;
  if (isDone || isBefore) return [];
  return [`half of ${what}: of ${goes.length} that go ${gone} are gone, of ${comes.length} that come ${came} are there`];
}
