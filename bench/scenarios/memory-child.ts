// Runs one saver in a process of its own and tells how much memory that took. Arguments: contender id (or "none"), messages.
import { join } from "node:path";
import { MemorySaver } from "@langchain/langgraph-checkpoint";
import { type Contender, contendersHere } from "../drive/contenders";
import { Script } from "../drive/script";
import { Thread } from "../drive/thread";
import { conversation } from "../drive/workloads";
import { withFolder } from "../measure/file-size";

/** A saver that keeps nothing: what remains is the conversation itself, LangGraph's code and the bench. */
const none: Contender = {
  id: "none",
  name: "no saver",
  role: "memory",
  records: false,
  hasFile: false,
  reopens: false,
  open: async () =>
    Object.assign(new MemorySaver(), { put: async () => ({}), putWrites: async () => undefined, getTuple: async () => ({}) }),
  close: async () => undefined,
};

const [id, messages] = process.argv.slice(2);
const { contenders } = await contendersHere();
const contender = [none, ...contenders].find((candidate) => candidate.id === id);
if (contender === undefined) throw new Error(`no contender ${id}`);

await withFolder(async (folder) => {
  const path = join(folder, "memory.db");
  const saver = await contender.open(path);
  const thread = new Thread({ contender, saver, path, script: new Script(conversation(5)) });
  await thread.begin();
  for (let count = 0; count < Number(messages); count += 1) {
    await thread.step();
    if (count % 50 === 49) await thread.getTuple();
  }
  if (contender.id !== "none") await thread.list(20);
  globalThis.gc?.();
  const heap = process.memoryUsage();
  process.send?.({ peak: process.resourceUsage().maxRSS * 1_024, heap: heap.heapUsed, outside: heap.external });
  await thread.end();
  await contender.close(saver);
});
