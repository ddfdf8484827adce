import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { numberOf } from "../numbers";
import { filledByItself, onFullDisk, underLimit } from "./full";
import { type Ground, Grounds } from "./grounds";
import { bundled } from "./run-child";
import { WITHOUT_MOUNT } from "./small-disk";
import { nameOf, newTally, type Scenario, sweep, type Tally } from "./sweep";

const HELP = `npm run torture -- faults [--seed n] [--stride n] [--rounds n] [--only text]

Makes system calls fail (strace), fills disks, and limits file sizes, while a saver works; see torture/faults/workloads.ts.
The place of the fault moves call by call through the workload. --stride n moves it n calls at a time (fewer where calls are rare), starting at --seed.
Needs strace, and the right to mount.
`;

const WORK: readonly [string, Ground][] = [
  ["saves", "nothing"],
  ["sealed", "nothing"],
  ["turns", "nothing"],
  ["graph", "nothing"],
  ["graph", "dead"],
  ["graph", "dead later"],
  ["upkeep", "history"],
];
const FAULTS: readonly Pick<Scenario, "calls" | "error">[] = [
  { calls: "pwrite64", error: "ENOSPC" },
  { calls: "pwrite64", error: "EIO" },
  { calls: "fsync,fdatasync", error: "EIO" },
  { calls: "fsync,fdatasync", error: "ENOSPC" },
  { calls: "ftruncate", error: "EIO" },
  { calls: "pread64", error: "EIO" },
];
/** How many times rarer calls are than those that write. Of rare calls, none may be skipped. */
const RARER: Record<Scenario["calls"], number> = { pwrite64: 1, pread64: 2, "fsync,fdatasync": 20, ftruncate: 200 };
/** strace can't count further. */
const LAST_PLACE = 65_535;
const LASTS = ["once", "a while", "for good", "to the death"] as const;

function scenarios(): Scenario[] {
  const all = WORK.flatMap(([workload, ground]) =>
    FAULTS.flatMap((fault) => LASTS.map((lasts): Scenario => ({ workload, ground, ...fault, lasts }))),
  );
  const reads = LASTS.map((lasts): Scenario => ({ workload: "reads", ground: "history", calls: "pread64", error: "EIO", lasts }));
  return [...all, ...reads];
}

/** @returns whether every fault gave a named error or a success, and no acknowledged save was lost */
export async function run(options: readonly string[]): Promise<boolean> {
  const { values } = parseArgs({
    args: [...options],
    options: {
      seed: { type: "string", default: "1" },
      stride: { type: "string", default: "1" },
      rounds: { type: "string", default: "6" },
      only: { type: "string", default: "" },
      help: { type: "boolean", default: false },
    },
  });
  if (values.help) {
    console.log(HELP);
    return true;
  }
  const [seed, stride, rounds] = [
    numberOf("seed", values.seed, 1),
    numberOf("stride", values.stride, 1),
    numberOf("rounds", values.rounds, 1),
  ];
  console.log(`seed ${seed}, stride ${stride}, rounds ${rounds}\n`);
  const folder = mkdtempSync(join(tmpdir(), "turns-faults-"));
  const total = newTally();
  const tell = (name: string, tally: Tally): void => {
    if (tally.runs === 0) return;
    console.log(`${name}: ${inWords(tally)}`);
    for (const wrong of tally.wrong) console.log(`  WRONG ${wrong}`);
    addTo(total, tally);
  };
  try {
    const child = bundled(folder);
    const grounds = new Grounds(child, folder);
    const wanted = (name: string): boolean => name.includes(values.only);
    for (const scenario of scenarios()) {
      const name = nameOf(scenario);
      if (!wanted(name)) continue;
      const step = Math.ceil(stride / RARER[scenario.calls]);
      const from = 1 + ((seed - 1) % step);
      tell(name, await sweep(child, grounds, scenario, { rounds, from, stride: step, upto: LAST_PLACE }));
    }
    for (const [workload, ground] of WORK) {
      for (const room of WITHOUT_MOUNT ? [] : [0, 4, 40, 80, 120, 160, 200, 240]) {
        const name = `${workload} on ${ground}, a full disk with room for ${room} KB`;
        if (wanted(name)) tell(name, await onFullDisk(child, grounds, folder, { workload, ground, room, rounds: 4 * rounds }));
      }
      for (const kilobytes of [4, 40, 80, 160]) {
        const name = `${workload} on ${ground}, ulimit -f ${kilobytes}`;
        if (wanted(name)) tell(name, await underLimit(child, grounds, { workload, ground, kilobytes, rounds: 6 * rounds }));
      }
    }
    if (WITHOUT_MOUNT) console.log("TURNS_WITHOUT_MOUNT=1: no disk was really full");
    else if (wanted("its own work"))
      tell("a disk filled by its own work", await filledByItself(child, grounds, folder, { rounds: 400 }));
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
  console.log(`\ntogether: ${inWords(total)}`);
  for (const [code, times] of [...total.refused].sort()) console.log(`  ${String(times).padStart(7)} ${code}`);
  return total.wrong.length === 0 && total.runs > 0;
}

function inWords({ runs, injected, unnoticed, refused, lostTurns, acknowledged, wrong }: Tally): string {
  const named = [...refused.values()].reduce((sum, times) => sum + times, 0);
  return [
    `${runs} runs`,
    `${injected} calls failed`,
    `${named} named errors`,
    `${lostTurns} turns reported lost`,
    `${unnoticed} runs that didn't notice`,
    `${acknowledged} answers`,
    `${wrong.length} wrong`,
  ].join(", ");
}

function addTo(total: Tally, tally: Tally): void {
  total.runs += tally.runs;
  total.injected += tally.injected;
  total.unnoticed += tally.unnoticed;
  total.lostTurns += tally.lostTurns;
  total.acknowledged += tally.acknowledged;
  total.wrong.push(...tally.wrong);
  for (const [code, times] of tally.refused) total.refused.set(code, (total.refused.get(code) ?? 0) + times);
}
