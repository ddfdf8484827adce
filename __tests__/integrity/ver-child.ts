import { at, Shop } from "../support/ret-world";

/** Saves, rewinds, takes back and prunes until it is told to stop. */
const [path = ""] = process.argv.slice(2);
const shop = new Shop({ path });
let stopped = false;
process.stdin.on("data", () => (stopped = true));
for (let round = 0; !stopped; round += 1) {
  const threadId = `busy ${round % 3}`;
  for (const task of ["a", "b"])
    await shop.graph.invoke({ log: [task], long: ["·".repeat(300)] }, at(threadId, { task_id: `${task}${round}` }));
  const { rewindId } = await shop.saver.rewind({ threadId, toTask: `a${round}` });
  if (round % 2 === 0) await shop.saver.rewinds.takeBack(rewindId!);
  if (round % 5 === 4) await shop.saver.prune({ threadId, keepLast: 3 });
  if (round === 0) process.stdout.write("begun\n");
}
shop.close();
process.exit(0);
