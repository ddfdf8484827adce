import { parseArgs } from "node:util";
import { numberOf } from "../numbers";
import { type Part, PARTS, sweep } from "./sweep";

const USAGE = `npm run torture -- corruption [--part <name>] [--rounds N] [--seed S] [--plain | --encrypted]

Damages copies of a file, reads, resumes, rewinds and salvages everything, and compares it with what had been saved.

  columns   every column of every table, one value changed, emptied or filled
  bytes     bits, pages, halves of pages, pages exchanged, the end cut off: each N times (default 20)
  log       the write-ahead log: bits, cut off, lost, and bits of the file below it
  foreign   files of other programs, or of a newer version
  salvage   all damage of bytes and log again, then salvage

`;

export async function run(options: readonly string[]): Promise<boolean> {
  const { values } = parseArgs({
    args: [...options],
    options: {
      part: { type: "string" },
      rounds: { type: "string", default: "20" },
      seed: { type: "string" },
      plain: { type: "boolean", default: false },
      encrypted: { type: "boolean", default: false },
      help: { type: "boolean", default: false },
    },
  });
  const parts = PARTS.filter((part) => values.part === undefined || part === values.part);
  if (values.help || parts.length === 0) {
    console.log(USAGE);
    return values.help;
  }
  const seed = numberOf("seed", values.seed ?? String(Date.now() % 1_000_000));
  console.log(`seed ${seed}`);
  const kinds = (["plain", "encrypted"] as const).filter((kind) => values.plain === values.encrypted || values[kind]);
  let clean = true;
  for (const kind of kinds) {
    const plan = { seed, kind, parts, every: 1, rounds: numberOf("rounds", values.rounds, 1), thorough: true };
    const isClean = await sweep(plan, (part: Part, { damaged, found, calls, refused, lacking, wrong }) => {
      const counts = `${damaged} damaged, ${found} found, ${calls} calls, ${refused} refused by name, ${lacking} lack rows, ${wrong.length} wrong`;
      console.log(`${kind.padEnd(10)} ${part.padEnd(9)} ${counts}`);
      for (const what of wrong) console.log(`  ${what.slice(0, 600)}`);
    });
    clean &&= isClean;
  }
  return clean;
}
