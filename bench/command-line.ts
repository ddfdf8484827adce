import { parseArgs } from "node:util";

export interface CommandLine {
  quick: boolean;
  write: boolean;
  strict: boolean;
  only: string[];
}

const USAGE = `npm run bench -- [--quick] [--only <scenario>]… [--write] [--strict]

  --quick    small sizes, about half a minute; leaves the threads of 1,000 and 10,000 out
  --only     only this scenario; may be repeated
  --write    writes bench/RESULTS.md
  --strict   exits with 1 if a promise is missed

Scenarios: `;

/** Undefined: there is nothing to run, and what there was to say has been said. */
export function commandLine(scenarios: readonly string[]): CommandLine | undefined {
  const flag = { type: "boolean", default: false } as const;
  const options = { quick: flag, write: flag, strict: flag, help: flag, only: { type: "string", multiple: true } } as const;
  try {
    const { values } = parseArgs({ options });
    const only = values.only ?? [];
    const unknown = only.find((name) => !scenarios.includes(name));
    if (unknown === undefined && !values.help) return { ...values, only };
    if (unknown !== undefined) {
      console.error(`No scenario ${unknown}.\n`);
      process.exitCode = 2;
    }
  } catch (error) {
    console.error(`${String(error)}\n`);
    process.exitCode = 2;
  }
  console.log(USAGE + scenarios.join(", "));
  return undefined;
}
