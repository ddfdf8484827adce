import { spawn } from "node:child_process";
import { copyFileSync } from "node:fs";
import { join } from "node:path";
import type { RewindReport } from "langgraph-checkpoint-turns";
import { CHILD_ENV, childProgram } from "../support/child-program";
import { closeAll, Deeds, fresh, open } from "../support/eff-world";
import { copyStore } from "../support/s1-tools";

jest.setTimeout(300_000);
afterAll(closeAll);

let child: string[] = [];
beforeAll(() => {
  child = childProgram(join(__dirname, "define-child.ts"));
});

interface Ended {
  value?: unknown;
  code?: string;
  message?: string;
}

function world() {
  const path = fresh();
  const deeds = new Deeds();
  /** One process. @returns "killed" if it died by SIGKILL */
  const started = (role: string, env: { TASK?: string; DIE_IN?: string } = {}): Promise<Ended | "killed"> =>
    new Promise((resolve, reject) => {
      const ended = spawn(process.execPath, [...child, role, path], { env: { ...CHILD_ENV, WORLD: deeds.path, ...env } });
      let out = "";
      let err = "";
      ended.stdout.on("data", (chunk) => (out += String(chunk)));
      ended.stderr.on("data", (chunk) => (err += String(chunk)));
      ended.on("close", (code, signal) => {
        if (signal === "SIGKILL") resolve("killed");
        else if (code === 0) resolve(JSON.parse(out) as Ended);
        else reject(new Error(`child ended with ${code}: ${err}`));
      });
    });
  /** What happened outside, without keys. */
  const happened = (): string[] => deeds.lines().map((line) => line.split(" ").slice(0, -1).join(" "));
  return { path, deeds, started, happened };
}

describe("S8.2 S2.9 SIGKILL in a defined effect: another process that resumes asks the definition's probe", () => {
  test("S8.2 S4.7 killed after the side effect: the probe finds it, and it isn't done again", async () => {
    const { path, started, happened } = world();
    expect(await started("run", { TASK: "a", DIE_IN: "after the deed" })).toBe("killed");
    expect(await started("resume", { TASK: "a" })).toMatchObject({ value: { log: [expect.any(String)] } });
    expect(happened()).toEqual(["open a"]);
    const [effect] = await open(path).effects.list("t");
    expect(effect).toMatchObject({ name: "create issue", status: "done", tries: 1, settledBy: "probe", undo: "create issue" });
  });

  test("S8.2 S4.7 killed before the side effect: the probe doesn't find it, and it runs with the same key", async () => {
    const { path, started, happened } = world();
    expect(await started("run", { TASK: "a", DIE_IN: "before the deed" })).toBe("killed");
    const [before] = await open(path).effects.list("t");
    expect(before).toMatchObject({ status: "in-doubt" });
    expect(await started("resume", { TASK: "a" })).toMatchObject({ value: { log: [before!.key] } });
    expect(happened()).toEqual(["open a"]);
  });
});

describe("S8.2 S3.5 a process that only imports the definitions rewinds", () => {
  const template = world();
  beforeAll(async () => {
    for (const TASK of ["a", "b", "c"]) expect(await template.started("run", { TASK })).toMatchObject({ value: {} });
  });
  /** Tasks a, b and c, each done by a process of its own. */
  function lived(): ReturnType<typeof world> {
    const one = world();
    copyStore(template.path, one.path);
    copyFileSync(template.deeds.path, one.deeds.path);
    return one;
  }
  const names = ({ value }: Ended): string[] => (value as RewindReport).effects.undone.map(({ name }) => name);

  test.each(["rewind", "rewind by a runner"])("S8.2 the undo is found by its name (%s), with input and result", async (role) => {
    const { started, happened } = lived();
    expect(names((await started(role)) as Ended)).toEqual(["create issue", "create issue"]);
    expect(happened()).toEqual(["open a", "open b", "open c", "close c 3", "close b 2"]);
  });

  test("S8.2 killed in an undo: the next process asks the undo's probe, and continues", async () => {
    const { path, started, happened } = lived();
    expect(await started("rewind", { DIE_IN: "undo" })).toBe("killed");
    expect(happened().slice(3)).toEqual(["close c 3"]);
    expect(names((await started("rewind by a runner")) as Ended)).toEqual(["create issue", "create issue"]);
    expect(happened().slice(3)).toEqual(["close c 3", "close b 2"]);
    expect(await open(path).verify()).toMatchObject({ ok: true });
  });

  test("S8.2 killed after a side effect: the rewind asks the effect's probe, and undoes what happened", async () => {
    const { started, happened } = world();
    await started("run", { TASK: "a" });
    expect(await started("run", { TASK: "b", DIE_IN: "after the deed" })).toBe("killed");
    expect(names((await started("rewind")) as Ended)).toEqual(["create issue"]);
    expect(happened()).toEqual(["open a", "open b", "close b 2"]);
  });

  test("S8.2 killed before a side effect: the rewind asks the effect's probe, and undoes nothing", async () => {
    const { started, happened } = world();
    await started("run", { TASK: "a" });
    expect(await started("run", { TASK: "b", DIE_IN: "before the deed" })).toBe("killed");
    const { value } = (await started("rewind")) as Ended;
    expect(value).toMatchObject({ effects: { undone: [], needNone: [{ name: "create issue", status: "failed" }] } });
    expect(happened()).toEqual(["open a"]);
  });

  test("S8.2 a process without the module is refused, told which effect, and to import it", async () => {
    const { started, happened } = lived();
    const { code, message } = (await started("blind")) as Ended;
    expect(code).toBe("EFFECT_UNCOMPENSATED");
    expect(message).toContain('can\'t undo 2 effects: "create issue" in node "act"');
    expect(message).toContain('Import the module that calls defineEffect("create issue", …) before you rewind');
    expect(happened()).toEqual(["open a", "open b", "open c"]);
    expect(names((await started("rewind")) as Ended)).toHaveLength(2);
  });
});
