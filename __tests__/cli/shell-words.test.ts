import { spawnSync } from "node:child_process";
import fc from "fast-check";
import { shellWord, startedAs } from "../../src/testing-internal";

const HOSTILE = ["x; touch PWNED #", "c\u0003\ntouch PWNED\n#", "a  b", " a ", "it's $'", "\u202egpj.exe", "$(id)", "\\'", "\u001b[201~id\r", "😀\u200d👩", "\u009b31m", "\u2028"]; // prettier-ignore

/** What bash reads. */
function words(line: string): string[] {
  const { stdout, stderr } = spawnSync("bash", ["--norc", "-c", `printf '%s\\0' ${line}`], {
    env: { ...process.env, LC_ALL: "C.UTF-8", BASH_ENV: "" },
    stdio: ["ignore", "pipe", "pipe"],
  });
  expect(stderr.toString()).toBe("");
  return stdout.toString().split("\0").slice(0, -1);
}

describe("commands to paste", () => {
  test("S10.1 property: a shell reads every word as it was, and nothing in it acts on a terminal", () => {
    const text = fc.string({ unit: "grapheme", minLength: 1 }).filter((one) => !one.includes("\0") && one.isWellFormed());
    const some = fc.array(fc.oneof(text, fc.constantFrom(...HOSTILE)), { minLength: 1, maxLength: 30 });
    fc.assert(
      fc.property(some, (given) => {
        const line = given.map(shellWord).join(" ");
        expect(words(line)).toEqual(given);
        expect(line).not.toMatch(/[\p{Cc}\p{Cf}\u2028\u2029]/u);
      }),
      { numRuns: 30 },
    );
    expect(words(HOSTILE.map(shellWord).join(" "))).toEqual(HOSTILE);
  });

  test("S10.1 a database whose name holds $ stays as it is, and so does the command behind it", () => {
    for (const place of ["agent$", "./a$$b.db", "a$&b", "a$`b", "postgresql://h/db$'x"])
      for (const thread of HOSTILE) {
        const command = startedAs(`turns ${shellWord(place)}`, `turns rewind ${shellWord(thread)} --to a`);
        expect(words(command)).toEqual(["turns", place, "rewind", thread, "--to", "a"]);
      }
  });
});
