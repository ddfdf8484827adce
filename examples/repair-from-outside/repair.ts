// An agent repairs a failed workflow from outside. It reads the status, edits node 3 in the file, and resumes in another process
// on the same database. The side effects of nodes 1 and 2 happen once. The agent's model is scripted, so the example needs no
// network.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { FakeListChatModel } from "@langchain/core/utils/testing";

const here = path.dirname(fileURLToPath(import.meta.url));
const folder = mkdtempSync(path.join(tmpdir(), "turns-repair-"));
const steps = path.join(folder, "steps.ts");
const ledger = path.join(folder, "ledger.txt");

interface Status {
  completed: string[];
  failed: { node: string; error: string }[];
  resumable: boolean;
  reason?: string;
}

/** Runs another process to its end. */
function workflow(what: "run" | "resume" | "status"): { result?: unknown; error?: string } {
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    [...process.execArgv, path.join(here, "workflow.ts"), folder, what],
    { encoding: "utf8", env: { ...process.env, LEDGER: ledger } },
  );
  assert.equal(status, 0, stderr);
  return JSON.parse(stdout) as { result?: unknown; error?: string };
}

const deeds = (): string[] => readFileSync(ledger, "utf8").trim().split("\n");

/** A model's answers: first a repair that goes too far, then one of node 3 alone. */
const model = new FakeListChatModel({
  responses: [
    { find: "`message about ${version}`", replace: "`message about release ${version}`" },
    { find: "`message about release ${version}`", replace: "`message about ${version}`" },
    { find: "(release as unknown as { tag: { name: string } }).tag.name", replace: "`v${release.version}`" },
  ].map((edit) => JSON.stringify(edit)),
});

async function edit(about: unknown): Promise<void> {
  const source = readFileSync(steps, "utf8");
  const prompt = `The workflow stands like this: ${JSON.stringify(about)}. Its steps:\n${source}\nAnswer with an edit as JSON.`;
  const { find, replace } = JSON.parse((await model.invoke(prompt)).text) as { find: string; replace: string };
  assert.ok(source.includes(find));
  writeFileSync(
    steps,
    source.replace(find, () => replace),
  );
  console.log(`the agent edits: ${find}  ->  ${replace}`);
}

try {
  copyFileSync(path.join(here, "steps.ts"), steps);
  const first = workflow("run");
  console.log(`first run: ${first.error}`);
  assert.ok(first.error);

  const status = workflow("status").result as Status;
  console.log(
    `status: completed ${status.completed.join(", ")}; failed ${status.failed[0]?.node}; resumable: ${status.resumable}`,
  );
  assert.deepEqual(status.completed, ["create_issue", "send_message"]);
  assert.equal(status.failed[0]?.node, "publish");

  await edit(status);
  const refused = workflow("resume");
  console.log(`resume: ${refused.error}`);
  assert.match(refused.error ?? "", /node "send_message", which had completed, changed: its source/);
  assert.equal(deeds().length, 2, "a refused resume does nothing");

  await edit(refused);
  await edit(status);
  const repaired = workflow("resume");
  console.log(`resume: ${JSON.stringify(repaired.result)}`);
  assert.deepEqual(repaired.result, { version: "1.4", notes: ["issue created", "message sent", "published v1.4"] });

  for (const deed of ["issue for 1.4", "message about 1.4", "published v1.4"]) {
    const times = deeds().filter((one) => one === deed).length;
    console.log(`side effect "${deed}": ${times}`);
    assert.equal(times, 1);
  }
  assert.equal(deeds().length, 3);
} finally {
  rmSync(folder, { recursive: true, force: true });
}
