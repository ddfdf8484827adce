import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { CallbackManager } from "@langchain/core/callbacks/manager";
import { BaseCallbackHandler } from "@langchain/core/callbacks/base";
import { unprinted } from "../../src/testing-internal";
import { tempFile } from "../support/temp";
import { childProgram } from "../support/child-program";

const reasons = [
  ["gate", "VALIDATION_FAILED"],
  ["an effect in doubt", "EFFECT_NOT_RECORDED"],
  ["a Thought that can't be saved", "the disk is full"],
  ["a checkpoint that can't be saved", "the disk is full"],
  ["a lost lease", "LEASE_LOST"],
] as const;

function stoppedFor(...given: string[]) {
  const child = join(__dirname, "refusal-child.ts");
  const { stdout, stderr, status } = spawnSync(process.execPath, [...childProgram(child), tempFile(), ...given], {
    env: { ...process.env, NODE_OPTIONS: process.env["TURNS_TEST_NODE_OPTIONS"] ?? "" },
    encoding: "utf8",
  });
  expect({ status, stderr: status === 0 ? "" : stderr }).toEqual({ status: 0, stderr: "" });
  return { stderr, told: JSON.parse(stdout) as { code: string; isOwn: boolean } };
}

describe("S6.5 a run that the recorder stops", () => {
  test.each(reasons)("S6.5 prints nothing to the console but what the logger says: %s", (why, code) => {
    const { stderr, told } = stoppedFor(why);
    expect(told).toMatchObject({ code, isOwn: true });
    expect(stderr).toBe("");
  });

  test.each(reasons.slice(0, 3))("S6.5 names nothing internal where the default logger speaks: %s", (why, code) => {
    const { stderr, told } = stoppedFor(why, "loud");
    expect(told).toMatchObject({ code });
    for (const line of stderr.split("\n").filter(Boolean)) expect(line).toMatch(/^langgraph-checkpoint-turns (warning|error): /);
    expect(stderr).not.toMatch(/RecorderFace|Error in handler/);
  });
});

describe("S6.5 an unprinted error", () => {
  class Throws extends BaseCallbackHandler {
    readonly name = "throws";
    override readonly awaitHandlers = true;
    override readonly raiseError = true;

    constructor(private readonly error: unknown) {
      super();
    }

    override handleChainStart(): never {
      throw unprinted(this.error);
    }
  }
  const callers = [new Error("one"), new TypeError("two"), "a text", undefined];

  test.each(callers)("S6.5 reaches LangChain's caller as itself: %p", async (error) => {
    const printed = jest.spyOn(console, "error").mockImplementation(() => undefined);
    const manager = new CallbackManager();
    manager.addHandler(new Throws(error));
    const caught = await manager.handleChainStart({} as never, {}).then(
      () => "nothing",
      (thrown: unknown) => thrown,
    );
    expect(caught).toBe(error);
    expect(printed).not.toHaveBeenCalled();
    printed.mockRestore();
  });

  test("S6.5 stands in for the error where nobody makes it a text", () => {
    const error = Object.assign(new TypeError("two"), { code: "TWO" });
    expect(unprinted(error)).toBeInstanceOf(TypeError);
    expect(unprinted(error)).toMatchObject({ name: "TypeError", message: "two", code: "TWO" });
  });
});
