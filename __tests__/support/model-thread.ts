/*
 * LangGraph's rules for checkpoints and writes over plain Maps, as a saver has to follow them. Values are fingerprints, so nothing that
 * happens to an object afterwards reaches the model.
 */

export interface ModelCheckpoint {
  readonly ns: string;
  readonly number: number;
  readonly parent: number | undefined;
  readonly source: string;
  readonly versions: Readonly<Record<string, number>>;
  readonly values: Readonly<Record<string, string>>;
}

export interface ModelWrite {
  readonly nodeTask: string;
  /** 0 for all regular writes together, below that one kind of special write. */
  readonly kind: number;
  readonly entries: readonly (readonly [channel: string, value: string])[];
}

/** How a thread stands. Never changed: a rewind goes back to an older one. */
export interface ModelState {
  readonly checkpoints: ReadonlyMap<string, ModelCheckpoint>;
  readonly writes: ReadonlyMap<string, readonly ModelWrite[]>;
}

interface Interval {
  readonly task: string;
  readonly before: ModelState;
  /** Something that was there before it has been pruned. */
  readonly isPruned?: boolean;
}

interface Rewind {
  readonly id: string;
  readonly from: { readonly state: ModelState; readonly intervals: readonly Interval[] };
  readonly to: ModelState;
}

export interface ModelSave {
  ns: string;
  number: number;
  parent: number | undefined;
  source: string;
  versions: Readonly<Record<string, number>>;
  values: Readonly<Record<string, string>>;
  fresh: readonly string[];
  task: string;
}

const SPECIAL = ["", "__error__", "__scheduled__", "__interrupt__", "__resume__"];

export function keyOf(ns: string, number: number): string {
  return `${ns} ${number}`;
}

export class ModelThread {
  #state: ModelState = { checkpoints: new Map(), writes: new Map() };
  #intervals: readonly Interval[] = [];
  #rewinds: Rewind[] = [];
  /** Keys of checkpoints by name. */
  #names = new Map<string, string>();

  get state(): ModelState {
    return this.#state;
  }

  /** Greatest number first. */
  checkpoints(ns?: string): ModelCheckpoint[] {
    const found = [...this.#state.checkpoints.values()].filter((checkpoint) => ns === undefined || checkpoint.ns === ns);
    return found.sort((a, b) => b.number - a.number || (a.ns < b.ns ? 1 : -1));
  }

  checkpoint(ns: string, number: number): ModelCheckpoint | undefined {
    return this.#state.checkpoints.get(keyOf(ns, number));
  }

  /** By node task, and of each its special writes first: no paths are given. */
  writes(ns: string, number: number): readonly (readonly [nodeTask: string, channel: string, value: string])[] {
    const rows = (this.#state.writes.get(keyOf(ns, number)) ?? []).toSorted((left, right) =>
      left.nodeTask === right.nodeTask ? left.kind - right.kind : left.nodeTask < right.nodeTask ? -1 : 1,
    );
    return rows.flatMap(({ nodeTask, entries }) => entries.map(([channel, value]) => [nodeTask, channel, value] as const));
  }

  /** Every value that is handed over is saved. Only the first input of a namespace leaves out what newVersions doesn't name. */
  put(save: ModelSave): void {
    this.#begin(save.task);
    const key = keyOf(save.ns, save.number);
    const earlier = this.#state.checkpoints.get(key);
    // A checkpoint that is saved again names itself as its parent.
    const parent = save.parent === save.number ? earlier?.parent : save.parent;
    const isFirstInput = save.parent === undefined && save.source === "input";
    const saved = Object.entries(save.values).filter(([channel]) => !isFirstInput || save.fresh.includes(channel));
    const values = Object.fromEntries(saved);
    const { ns, number, source, versions } = save;
    const checkpoints = new Map(this.#state.checkpoints).set(key, { ns, number, parent, source, versions, values });
    this.#state = { ...this.#state, checkpoints };
  }

  /** A node task's regular writes replace its earlier regular ones, and each special one its own kind. */
  putWrites(
    at: { ns: string; number: number; task: string },
    nodeTask: string,
    writes: readonly (readonly [string, string])[],
  ): void {
    this.#begin(at.task);
    const key = keyOf(at.ns, at.number);
    const rows = new Map<number, (readonly [string, string])[]>();
    const regular = writes.filter(([channel]) => SPECIAL.indexOf(channel) < 1);
    if (regular.length > 0) rows.set(0, regular);
    for (const write of writes) {
      const kind = SPECIAL.indexOf(write[0]);
      if (kind > 0) rows.set(-kind, [write]);
    }
    const others = (this.#state.writes.get(key) ?? []).filter((row) => row.nodeTask !== nodeTask || !rows.has(row.kind));
    const own = [...rows].map(([kind, entries]) => ({ nodeTask, kind, entries }));
    this.#state = { ...this.#state, writes: new Map(this.#state.writes).set(key, [...others, ...own]) };
  }

  /** In the order in which they ended. */
  tasks(): string[] {
    const names = this.#intervals.map(({ task }) => task);
    return names.filter((name, index) => names.lastIndexOf(name) === index);
  }

  /** Undefined if there is nothing behind the task. Where something was pruned a saver may refuse. */
  rewind(task: string): { mayRefuse: boolean; go: (id: string) => void } | undefined {
    const at = this.#intervals.findLastIndex((interval) => interval.task === task);
    const next = this.#intervals[at + 1];
    if (next === undefined) return undefined;
    const go = (id: string): void => {
      this.#rewinds.push({ id, from: { state: this.#state, intervals: this.#intervals }, to: next.before });
      this.#state = next.before;
      this.#intervals = this.#intervals.slice(0, at + 1);
      this.#dropNames();
    };
    return { mayRefuse: next.isPruned === true, go };
  }

  /** The ids of all rewinds that were not taken back. */
  rewinds(): string[] {
    return this.#rewinds.map(({ id }) => id);
  }

  /** @returns whether it is possible, which it is while the thread stands as the rewind left it */
  takeBack(id: string): boolean {
    const rewind = this.#rewinds.find((candidate) => candidate.id === id)!;
    if (this.#state !== rewind.to) return false;
    this.#state = rewind.from.state;
    this.#intervals = rewind.from.intervals;
    this.#rewinds = this.#rewinds.filter((other) => other !== rewind);
    return true;
  }

  copy(): ModelThread {
    const copy = new ModelThread();
    copy.#state = this.#state;
    copy.#intervals = this.#intervals;
    copy.#names = new Map(this.#names);
    return copy;
  }

  /** Forgets all but these, the newest of each namespace and the named ones among them. */
  prune(isKept: (checkpoint: ModelCheckpoint) => boolean): void {
    const left = ({ checkpoints, writes }: ModelState): ModelState => {
      const kept = new Map([...checkpoints].filter(([, checkpoint]) => isKept(checkpoint)));
      return { checkpoints: kept, writes: new Map([...writes].filter(([key]) => kept.has(key))) };
    };
    this.#state = left(this.#state);
    this.#intervals = this.#intervals.map(({ task, before }) => ({ task, before: left(before), isPruned: true }));
    this.#rewinds = [];
  }

  name(name: string, { ns, number }: ModelCheckpoint): void {
    this.#names.set(name, keyOf(ns, number));
  }

  /** By name, the checkpoint that has it. */
  names(): [string, string][] {
    return [...this.#names].sort(([a], [b]) => (a < b ? -1 : 1));
  }

  isNamed({ ns, number }: ModelCheckpoint): boolean {
    return [...this.#names.values()].includes(keyOf(ns, number));
  }

  /** A checkpoint that went has no name, also when it comes back. */
  #dropNames(): void {
    for (const [name, key] of this.#names) if (!this.#state.checkpoints.has(key)) this.#names.delete(name);
  }

  #begin(task: string): void {
    if (this.#intervals.at(-1)?.task !== task) this.#intervals = [...this.#intervals, { task, before: this.#state }];
  }
}
