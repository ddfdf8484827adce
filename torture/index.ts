import { type Torture, TORTURES } from "./tortures";

const USAGE = `npm run torture -- [<torture>] [its options]

Without a name, random programs are killed at random points (crash). --help after a name lists its options. Random runs print their seed; --seed repeats
them.

`;

async function main(): Promise<void> {
  const [name = "crash", ...options] = process.argv.slice(2);
  const isName = Object.hasOwn(TORTURES, name);
  if (!isName) {
    console.log(
      USAGE +
        Object.entries(TORTURES)
          .map(([each, { about }]) => `  ${each.padEnd(14)}${about}`)
          .join("\n"),
    );
    process.exitCode = name === "--help" ? 0 : 2;
    return;
  }
  const { load } = TORTURES[name] as Torture;
  const { run } = await load();
  if (!(await run(options))) process.exitCode = 1;
}

try {
  await main();
} catch (error) {
  // A wrong option. A run prints what broke by itself.
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 2;
}
