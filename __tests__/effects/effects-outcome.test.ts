import { effect, GraphRunner } from "langgraph-checkpoint-turns";
import { chain } from "../support/s1-graph";
import { quiet } from "../support/s1-tools";
import { tempFile } from "../support/temp";
import { openSaver } from "../support/open-saver";

const coded = (code: string): Error => Object.assign(new Error(code), { code });
const named = (name: string): Error => Object.assign(new Error(name), { name });

describe("S2.9 what an error says about the side effect, if nobody says", () => {
  test.each<[string, Error, "in-doubt" | "failed"]>([
    ["a timeout", coded("ETIMEDOUT"), "in-doubt"],
    ["a lost connection, as the cause", new TypeError("fetch failed", { cause: coded("ECONNRESET") }), "in-doubt"],
    ["a socket of undici's", new TypeError("fetch failed", { cause: coded("UND_ERR_SOCKET") }), "in-doubt"],
    ["an abort", named("AbortError"), "in-doubt"],
    ["a connection that was never made", new TypeError("fetch failed", { cause: coded("ECONNREFUSED") }), "failed"],
    [
      "a connection that took too long to make",
      new TypeError("fetch failed", { cause: coded("UND_ERR_CONNECT_TIMEOUT") }),
      "failed",
    ],
    ["an error of the receiver", Object.assign(new Error("bad request"), { status: 400 }), "failed"],
  ])("S2.9 %s", async (_, error, status) => {
    const saver = openSaver(tempFile(), { logger: quiet });
    let calls = 0;
    const pay = (): string => {
      calls++;
      if (calls === 1) throw error;
      return "paid";
    };
    const runner = new GraphRunner(chain(saver, async (node) => void (node === "b" && (await effect("pay", pay)))));
    await expect(runner.invoke({ log: [] }, { threadId: "t" })).rejects.toThrow();
    expect(await saver.effects.list("t")).toMatchObject([{ status }]);
    const again = runner.resume({ threadId: "t" });
    if (status === "in-doubt") await expect(again).rejects.toMatchObject({ code: "EFFECT_IN_DOUBT" });
    else await again;
    expect(calls).toBe(status === "in-doubt" ? 1 : 2);
    saver.close();
  });

  test("S2.9 a probe that answers null leaves the effect in doubt", async () => {
    const saver = openSaver(tempFile(), { logger: quiet });
    let calls = 0;
    const pay = (): string => {
      calls++;
      throw coded("ETIMEDOUT");
    };
    const probe = (): never => null as never;
    const runner = new GraphRunner(chain(saver, async (node) => void (node === "b" && (await effect("pay", pay, { probe })))));
    await expect(runner.invoke({ log: [] }, { threadId: "t" })).rejects.toMatchObject({ code: "EFFECT_IN_DOUBT" });
    await expect(runner.resume({ threadId: "t" })).rejects.toThrow(/answered null/);
    expect(calls).toBe(1);
    saver.close();
  });
});
