import { Deeds } from "./errands";
import { Scribe } from "./scribe";
import { WORKLOADS } from "./workloads";

/** One workload in a process of its own: `child <workload> <file> <deeds> <tries> <rounds> [<file that fills the disk>]`. */
const [name = "", file = "", deeds = "", tries = "1", rounds = "1", filler] = process.argv.slice(2);
const scribe = new Scribe(Number(tries), filler);
for (const event of ["unhandledRejection", "uncaughtException"] as const) {
  process.on(event, (error: unknown) => {
    scribe.wrong(`${event}: ${String(error)}`);
    process.exit(3);
  });
}

async function main(): Promise<void> {
  await WORKLOADS[name]?.({ scribe, file, deeds: new Deeds(deeds), rounds: Number(rounds) });
  scribe.say({ kind: "end" });
}

void main();
