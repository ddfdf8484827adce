import { emptyCheckpoint, uuid6 } from "@langchain/langgraph-checkpoint";
import { openSaver } from "../support/open-saver";
import { quiet } from "../support/s1-tools";
import { tempFile } from "../support/temp";

test("S1.9 a checkpoint that is there isn't refused as a parent because it could not be saved once more; one that isn't there is", async () => {
  const saver = openSaver(tempFile(), { logger: quiet });
  const ids = Array.from({ length: 5 }, (_, at) => uuid6(at));
  const put = (at: number, parent?: number, value: unknown = at) =>
    saver.put(
      { configurable: { thread_id: "t", checkpoint_ns: "", checkpoint_id: parent === undefined ? undefined : ids[parent] } },
      { ...emptyCheckpoint(), id: ids[at]!, channel_values: { x: value }, channel_versions: { x: at + 1 } },
      { source: "loop", step: at, parents: {} },
      { x: at + 1 },
    );
  const refused = { code: "UNSERIALIZABLE_VALUE" };
  await put(0);
  await expect(put(0, undefined, () => "no")).rejects.toMatchObject(refused);
  await put(1, 0);
  await expect(put(2, 1, () => "no")).rejects.toMatchObject(refused);
  await expect(put(3, 2)).rejects.toMatchObject(refused);
  await put(2, 1);
  await put(3, 2);
  await put(4, 3);
  expect(await saver.verify()).toMatchObject({ ok: true, checked: { checkpoints: 5 } });
  await (saver.close() as unknown);
});
