import { type Torture, TORTURES } from "./tortures";

const USAGE = `npm run torture -- [<torture>] [its options]

Without a name the long crash matrix runs. --help behind a name tells its options; runs that draw print their seed, and --seed repeats them.

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
  // An option that is wrong; a run tells what broke by itself.
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 2;
}
