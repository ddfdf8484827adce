import { spawnSync } from "node:child_process";
import fc from "fast-check";
import {
  assembled,
  type EffectLine,
  moreWith,
  passwordNote,
  settlingCommand,
  shellWord,
  startedAs,
  startedWith,
  takeBackCommand,
  toCopy,
  turns,
  withCommands,
  withoutPassword,
  withoutPasswords,
} from "../../src/testing-internal";

const HOSTILE = ["x; touch PWNED #", "c\u0003\ntouch PWNED\n#", "a  b", " a ", "it's $'", "\u202egpj.exe", "$(id)", "\\'", "\u001b[201~id\r", "😀\u200d👩", "\u009b31m", "\u2028"]; // prettier-ignore

/** What bash reads. */
function words(line: string, locale = "C.UTF-8"): string[] {
  const { stdout, stderr } = spawnSync("bash", ["--norc", "-c", `printf '%s\\0' ${line}`], {
    env: { ...process.env, LC_ALL: locale, BASH_ENV: "" },
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
        for (const locale of ["C", "C.UTF-8"]) expect(words(line, locale)).toEqual(given);
        expect(line).not.toMatch(/[\p{Cc}\p{Cf}\u2028\u2029]/u);
      }),
      { numRuns: 30 },
    );
    for (const locale of ["C", "C.UTF-8"]) expect(words(HOSTILE.map(shellWord).join(" "), locale)).toEqual(HOSTILE);
  });

  test("S10.1 a word that zsh or bash would expand is quoted", () => {
    for (const word of ["=ls", "~", "~root/a", "*.db", "{a,b}"]) expect(shellWord(word)).toBe(`'${word}'`);
    expect(shellWord("a\u200d1")).toBe("$'a\\xe2\\x80\\x8d1'");
  });

  test("S10.1 a database whose name holds $ stays as it is, and so does the command behind it", () => {
    for (const place of ["agent$", "./a$$b.db", "a$&b", "a$`b", "postgresql://h/db$'x"])
      for (const thread of HOSTILE) {
        const command = startedAs(`turns ${shellWord(place)}`, `turns rewind ${shellWord(thread)} --to a`);
        expect(words(command)).toEqual(["turns", place, "rewind", thread, "--to", "a"]);
      }
  });

  test("S10.1 property: the program reads every id in a printed command as that id, also one that looks like an option", async () => {
    const id = fc.oneof(
      fc.constantFrom("-", "--", "-V", "--yes", "--help", "-x", "--to=a", "---", "-h", "help", "--json", "- a", ...HOSTILE),
      fc.string({ unit: "grapheme", minLength: 1 }).filter((one) => !one.includes("\0") && one.isWellFormed()),
    );
    await fc.assert(
      fc.asyncProperty(id, id, async (thread, other) => {
        const printed: readonly (readonly [command: string, args: string[], options: object])[] = [
          [turns("status", [thread]), [thread], {}],
          [turns("log", [thread], "--failed"), [thread], { failed: true }],
          [turns("rewind", [thread], ["--to", other], "--yes"), [thread], { to: other, yes: true, archive: true }],
          [turns("name", [thread, other], "--remove", "--yes"), [thread, other], { remove: true, yes: true }],
          [turns("effect resolve", [thread, "done"]), [thread, "done"], {}],
          [turns("inbox answer", [thread], ["--value", "JSON"], ["--graph", other]), [thread], { value: "JSON", graph: other }],
          [turns("take-back", [thread], false, "--yes"), [thread], { yes: true }],
        ];
        for (const [command, args, options] of printed) {
          const line = startedAs("turns ./a.db --schema s", command);
          const [, place, ...read] = words(line);
          const seen = await parsed(["--db", place ?? "", ...read]);
          expect({ line, ...seen }).toEqual({
            line,
            args,
            options: { db: "./a.db", schema: "s", color: true, pager: true, ...options },
          });
        }
      }),
      { numRuns: 20 },
    );
  });

  test("S10.1 what follows in a list is asked for as the list was, with the database and without a password", () => {
    const asked = ["postgresql://u:secret@h/db", "threads", "--status", "failed", "--cursor", "a", "--table"];
    startedWith(asked, { db: "postgresql://u:secret@h/db" });
    expect(moreWith("-b c")).toBe("turns postgresql://u@h/db threads --status failed --table --cursor='-b c'");
    startedWith(["log", "--db=postgresql://u:secret@h/db", "--cursor=4", "--", "-x"], { db: "postgresql://u:secret@h/db" });
    expect(moreWith(7)).toBe("turns log --db=postgresql://u@h/db --cursor 7 -- -x");
    startedWith(["agent.db", "log", "x"], { db: "agent.db", keyFile: "a b.key" });
    expect(toCopy(turns("log", ["y"]))).toBe("turns agent.db --key-file 'a b.key' log y");
  });

  test("S10.1 ids of effects and rewinds are words in the commands that settle them and take them back", () => {
    for (const id of [...HOSTILE, "-x"]) {
      const read = (command: string | null): string[] => words(command ?? "").filter((word) => word !== "--");
      expect(read(settlingCommand({ id, status: "in-doubt" } as EffectLine))).toEqual(["turns", "effect", "resolve", id, "done"]);
      const undo = { id, status: "done", undoStatus: "begun" } as EffectLine;
      expect(read(settlingCommand(undo))).toEqual(["turns", "effect", "resolve", id, "undo-done"]);
      expect(read(takeBackCommand(id, 1)).sort()).toEqual(["turns", "take-back", id, "--despite-undone", "--yes"].sort());
    }
  });

  test("S10.1 of a server's URL with a password, commands say once what to set before they're run", () => {
    const note = "The commands need your password: set PGPASSWORD.";
    startedWith([], { db: "postgresql://u:secret@h/db" });
    expect(passwordNote(`next\n  ${toCopy(turns("inbox"))}`)).toContain(note);
    expect(passwordNote("Nobody waits for an answer.")).toBe("");
    startedWith(["move", "a.db", "postgresql://u:secret@h/db"], {});
    expect(passwordNote("Take it back: turns move postgresql://u@h/db a.db --yes")).toContain(note);
    for (const db of ["postgresql://u@h/db", "agent.db"]) {
      startedWith([], { db });
      expect(passwordNote(toCopy(turns("inbox")))).toBe("");
    }
  });

  test("S10.1 commands in a sentence name the database; what isn't a command stays", () => {
    startedWith([], { db: "agent.db" });
    expect(withCommands("turns inbox lists them, and turns effect resolve ID done settles it. turns tail.")).toBe(
      "turns agent.db inbox lists them, and turns agent.db effect resolve ID done settles it. turns agent.db tail.",
    );
    for (const text of ['Did you mean "turns log"?', "Name it: turns agent.db salvage out.db", "it turns out. It turns red"])
      expect(withCommands(text)).toBe(text);
  });
});

/** What the program makes of words, without doing it. */
async function parsed(args: readonly string[]): Promise<{ args: string[]; options: object }> {
  const program = assembled(() => undefined);
  let seen: { args: string[]; options: object } | undefined;
  program.hook("preAction", (_, command) => {
    seen = { args: command.processedArgs.filter((arg) => arg !== undefined), options: command.optsWithGlobals() };
    throw new Error("seen");
  });
  await program.parseAsync([...args], { from: "user" }).catch((error: Error) => {
    if (error.message !== "seen") throw error;
  });
  return seen ?? { args: [], options: {} };
}

describe("places with a password", () => {
  test.each([
    ["postgresql://u:secret@h/db", "postgresql://u@h/db"],
    ["postgre://u:secret@h/db", "postgre://u@h/db"],
    ["POSTGRES://u:secret@h/db", "POSTGRES://u@h/db"],
    ["u:secret@h/db", "u@h/db"],
    ["postgresql:u:secret@h/db", "postgresql:u@h/db"],
    ["postgresql:/u:secret@h/db", "postgresql:/u@h/db"],
    ["postgresql://u:secret@a,b/db", "postgresql://u@a,b/db"],
    [
      "postgresql://u:secret@a:5432,b:5433/db?target_session_attrs=read-write",
      "postgresql://u@a:5432,b:5433/db?target_session_attrs=read-write",
    ],
    ["postgresql://u:se@cr/et?@h/db", "postgresql://u@h/db"],
    ["postgresql://u:secret?x=y@h/db", "postgresql://u@h/db"],
    ["postgresql://:secret@h/db", "postgresql://@h/db"],
    ["postgresql://u@h/db?PASSWORD=secret&sslmode=require", "postgresql://u@h/db?sslmode=require"],
    ["postgresql://u@h/db?sslmode=require&SslPassword=secret", "postgresql://u@h/db?sslmode=require"],
    ["postgresql://u@h/db?password=secret&sslpassword=secret&a=b", "postgresql://u@h/db?a=b"],
    ["socket:/var/run?db=a&password=secret", "socket:/var/run?db=a"],
    ["socket://u:secret@/var/run?db=a", "socket://u@/var/run?db=a"],
    ["host=h password=secret user=u", "host=h user=u"],
    ["postgres//u:secret@h/db", "postgres//u@h/db"],
    ["//u:secret@h/db", "//u@h/db"],
    [" postgresql://u:secret@h/db", " postgresql://u@h/db"],
    ["'postgresql://u:secret@h/db'", "'postgresql://u@h/db'"],
  ])("S10.1 %s is shown as %s", (place, shown) => {
    expect(withoutPassword(place).replaceAll(/ +/g, " ")).toBe(shown);
    expect(withoutPasswords(`There is no ${JSON.stringify(place)}.`)).not.toContain(
      /^(postgre|socket)/i.test(place) ? "secret" : "\0",
    );
  });

  test.each([
    "agent.db",
    "./a:b.db",
    "postgresql://h:5432/db",
    "postgresql://h:5432/db?application_name=a@b",
    "postgresql://u@h/db?options=-c%20search_path%3Dx",
    "file:///data/agent.db",
  ])("S10.1 %s, which has none, is shown as it is", (place) => {
    expect(withoutPassword(place)).toBe(place);
    startedWith([place], { db: place });
    expect(words(toCopy("turns")).at(-1)).toBe(place);
  });
});
