import { altered, everything, isFound, type Outcomes } from "./calls";
import { BYTE_DAMAGE, flip, flipsOf, LOG_DAMAGE, randomOf } from "./damage";
import { foreignFiles } from "./foreign";
import { merged, notOfAnyState, type States, statesOf } from "./states";
import { wrongWithSalvage } from "./salvaged";
import { build, Folder, KEY } from "./world";

export interface Plan {
  seed: number;
  kind: "plain" | "encrypted";
  parts: readonly Part[];
  /** For columns: every n-th one. For bytes: how often each kind of damage is made. */
  every: number;
  rounds: number;
  /** Whether every damaged file is also resumed and rewound; otherwise every fourth is. */
  thorough: boolean;
}
export const PARTS = ["columns", "bytes", "log", "foreign", "salvage"] as const;
export type Part = (typeof PARTS)[number];

export interface Tally {
  damaged: number;
  /** Reported by `verify`, or when the file was opened. */
  found: number;
  /** Calls made on damaged files, and how many of them were refused by name. */
  calls: number;
  refused: number;
  /** Answers in which rows are missing that `verify` misses too; each row they show is as it was saved. */
  lacking: number;
  /** Broken promises, one line each. */
  wrong: string[];
}

/** Damages copies of one file in all ways of a part, and compares what is read then with what was saved. */
export async function sweep(plan: Plan, said: (part: Part, tally: Tally) => void): Promise<boolean> {
  const options = plan.kind === "encrypted" ? { encryption: { key: KEY } } : {};
  const folder = new Folder();
  try {
    const opens: string[] = [];
    const path = folder.file();
    const threads = await build(path, 4, options, [], () => opens.push(folder.copy(path)));
    const wanted = await everything(folder, path, threads, options);
    const ground: Ground = { plan, folder, path, opens, threads, options, wanted, random: randomOf(plan.seed) };
    let clean = true;
    for (const part of plan.parts) {
      const tally: Tally = { damaged: 0, found: 0, calls: 0, refused: 0, lacking: 0, wrong: [] };
      await SWEEPS[part](ground, tally);
      clean &&= tally.wrong.length === 0;
      said(part, tally);
    }
    return clean;
  } finally {
    folder.remove();
  }
}

export interface Ground {
  plan: Plan;
  folder: Folder;
  path: string;
  /** The same while it was open, with its log: before something was rewound, and at the end. */
  opens: readonly string[];
  threads: readonly string[];
  options: { encryption?: { key: string } };
  wanted: Outcomes;
  random: (below: number) => number;
}

const SWEEPS: Record<Part, (ground: Ground, tally: Tally) => Promise<void>> = {
  columns: async (ground, tally) => {
    const flips = flipsOf(ground.path).filter((_, index) => index % ground.plan.every === 0);
    for (const one of flips) {
      // Marks of runs have no checksum (docs/integrity.md).
      const mustBeFound = one.table !== "langgraph_runs";
      await damaged(
        ground,
        tally,
        `${one.table}.${one.column} ${one.how}`,
        (copy) => flip(copy, one, ground.random),
        mustBeFound,
      );
    }
  },
  bytes: async (ground, tally) => {
    for (let round = 0; round < ground.plan.rounds; round += 1) {
      for (const [name, damage] of Object.entries(BYTE_DAMAGE)) {
        // A page may be free, or a byte unused: then there is nothing to find.
        await damaged(ground, tally, `${name} (round ${round})`, (copy) => (damage(copy, ground.random), true), false);
      }
    }
  },
  log: async (ground, tally) => {
    const { folder, opens, threads, options, random, plan } = ground;
    const open = opens.at(-1) ?? "";
    const states = await statesOfAll(ground);
    for (let round = 0; round < plan.rounds; round += 1) {
      for (const [name, damage] of Object.entries(LOG_DAMAGE)) {
        const copy = folder.copy(open);
        damage(copy, random);
        const { found } = await isFound(folder.copy(copy), options);
        const seen = await statesOf(copy, threads, options);
        tally.damaged += 1;
        if (found) tally.found += 1;
        count(tally, seen.outcomes);
        tally.wrong.push(...notOfAnyState(states, seen, true).map((what) => `${name} (round ${round}): ${what}`));
        folder.forget(copy);
      }
    }
  },
  foreign: (ground, tally) => foreignFiles(ground, tally),
  salvage: async (ground, tally) => {
    const { folder, path, opens, random, plan } = ground;
    const open = opens.at(-1) ?? "";
    for (let round = 0; round < plan.rounds; round += 1) {
      for (const [name, damage] of Object.entries({ ...BYTE_DAMAGE, ...LOG_DAMAGE })) {
        const source = Object.hasOwn(LOG_DAMAGE, name) ? open : path;
        const copy = folder.copy(source);
        damage(copy, random);
        tally.damaged += 1;
        const wrong = await wrongWithSalvage(ground, copy, source, tally);
        tally.wrong.push(...wrong.map((what) => `${name} (round ${round}): ${what}`));
        folder.forget(copy);
      }
    }
  },
};

/** Everything that the file once held: with only a part of its log, it is an older state. */
export async function statesOfAll({ folder, opens, threads, options }: Ground): Promise<States> {
  const states: States[] = [];
  for (const open of opens) states.push(await statesOf(folder.copy(open), threads, options));
  return merged(states);
}

async function damaged(
  ground: Ground,
  tally: Tally,
  name: string,
  damage: (copy: string) => boolean,
  mustBeFound: boolean,
): Promise<void> {
  const { folder, path, threads, options, wanted, plan } = ground;
  const copy = folder.copy(path);
  if (damage(copy)) {
    tally.damaged += 1;
    const looked = folder.copy(copy);
    const { found } = await isFound(looked, options);
    folder.forget(looked);
    if (found) tally.found += 1;
    else if (mustBeFound) tally.wrong.push(`${name}: verify finds nothing`);
    const kinds = plan.thorough || tally.damaged % 4 === 0 ? (["read", "resume", "rewind"] as const) : (["read"] as const);
    const outcomes = await everything(folder, copy, threads, options, kinds);
    count(tally, outcomes);
    const wrong = altered(wanted, outcomes, found);
    tally.lacking += altered(wanted, outcomes).length - wrong.length;
    tally.wrong.push(...wrong.map((what) => `${name}: ${what}`));
  }
  folder.forget(copy);
}

function count(tally: Tally, outcomes: Outcomes): void {
  tally.calls += outcomes.size;
  tally.refused += [...outcomes.values()].filter((outcome) => "refused" in outcome).length;
}
