import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { numberOf } from "../numbers";
import { type Course, inChild, supervised } from "./supervised";
import { TARGETS } from "./targets";

const USAGE = `npm run torture -- fuzz [--target <name>] [--seconds N | --minutes N | --inputs N] [--seed S] [--keep <folder>]

Feeds each target with mutated valid inputs, for N seconds, minutes or inputs (default 60 seconds). Each target runs in a process of its own. If that dies,
stops answering or takes too much memory, that is a finding too. Findings are printed, and kept in the folder if you give one.

`;

export async function run(options: readonly string[]): Promise<boolean> {
  const { values } = parseArgs({
    args: [...options],
    options: {
      target: { type: "string" },
      seconds: { type: "string" },
      minutes: { type: "string" },
      inputs: { type: "string" },
      seed: { type: "string" },
      keep: { type: "string" },
      child: { type: "string" },
      help: { type: "boolean", default: false },
    },
  });
  if (values.child !== undefined) return inChild(JSON.parse(values.child) as Course);
  const names = values.target === undefined ? Object.keys(TARGETS) : [values.target];
  if (values.help || names.some((name) => !Object.hasOwn(TARGETS, name))) {
    const list = Object.entries(TARGETS).map(([name, { about }]) => `  ${name.padEnd(18)}${about}`);
    console.log(USAGE + list.join("\n"));
    return values.help;
  }
  const seed = numberOf("seed", values.seed ?? String(Date.now() % 1_000_000));
  const seconds =
    values.seconds === undefined ? 60 * numberOf("minutes", values.minutes ?? "1") : numberOf("seconds", values.seconds);
  const inputs = values.inputs === undefined ? undefined : numberOf("inputs", values.inputs, 1);
  console.log(`seed ${seed}`);
  let clean = true;
  for (const target of names) {
    const limits = inputs === undefined ? { milliseconds: seconds * 1_000 } : { inputs };
    const { found, ...tried } = await supervised({ target, seed, ...limits });
    const slow = `slowest ${Math.round(tried.slowest.ms)} ms for ${tried.slowest.length} bytes, peak ${tried.peakMb} MB`;
    console.log(
      `${target.padEnd(16)} ${String(tried.inputs).padStart(8)} inputs  ${tried.answers} answers  ${found.length} findings  ${slow}`,
    );
    for (const [index, { what, input }] of found.entries()) {
      clean = false;
      console.log(`  ${what}\n    ${JSON.stringify(input.toString().slice(0, 400))}`);
      if (values.keep === undefined) continue;
      mkdirSync(values.keep, { recursive: true });
      writeFileSync(join(values.keep, `${target}-${seed}-${index}`), input);
    }
  }
  return clean;
}
