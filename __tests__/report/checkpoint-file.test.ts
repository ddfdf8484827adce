import { spawn } from "node:child_process";
import {
  chmodSync,
  chownSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { TurnsError } from "langgraph-checkpoint-turns";
import { CheckpointFile, type Phase, type PhaseStatus, type Progress } from "langgraph-checkpoint-turns/checkpoint-file";
import { tempFile } from "../support/temp";
import { childProgram } from "../support/child-program";
import { runs } from "../support/lane";
import { laneTest } from "../support/lane-test";

const NOW = new Date("2026-11-21T10:00:00.000Z");
const clock = () => NOW;
const tokens = (input = 0, output = 0, cached = 0, reasoning = 0) => ({ input, output, cached, reasoning });

function phase(id: string, status: PhaseStatus = "pending", more: Partial<Phase> = {}): Phase {
  return { id, name: id, status, startedAt: null, endedAt: null, notes: "", tokens: tokens(), ...more };
}

function progressOf(phases: Phase[], resume: Partial<Progress["resume"]> = {}): Progress {
  const totals = tokens();
  for (const { tokens: used } of phases) {
    for (const kind of ["input", "output", "cached", "reasoning"] as const) totals[kind] += used[kind];
  }
  const open = { lastPhase: null, nextPhase: null, nextStep: null, canResume: true, reason: null };
  return { threadId: "order-17", phases, resume: { ...open, ...resume }, totals };
}

const example = progressOf(
  [
    phase("research", "completed", {
      name: "Research the market",
      startedAt: new Date("2026-11-21T09:50:37.000Z"),
      endedAt: new Date("2026-11-21T09:52:10.120Z"),
      notes: "Three sources:\n\n- the register\n- `prices.csv`\n\n## Not a heading of ours",
      tokens: tokens(12_400, 1_310, 8_000, 200),
    }),
    phase("write", "in-progress", { startedAt: new Date("2026-11-21T09:52:11.000Z"), tokens: tokens(600, 40) }),
    phase("send"),
  ],
  {
    lastPhase: "research",
    nextPhase: "write",
    nextStep: "continue with write",
    canResume: false,
    reason: "a process is at work | here",
  },
);

async function fileWith(progress?: Progress): Promise<{ file: CheckpointFile; path: string; text: () => string }> {
  const path = tempFile("CHECKPOINT.md");
  const file = new CheckpointFile(path, { clock });
  if (progress !== undefined) await file.write(progress);
  return { file, path, text: () => readFileSync(path, "utf8") };
}

const EXAMPLE = `<!-- turns:progress 1 -->

# Progress of order-17

| phase | status | started | ended | tokens in | tokens out | cached | reasoning |
| --- | --- | --- | --- | ---: | ---: | ---: | ---: |
| research | ✅ completed | 2026-11-21 09:50:37.000Z | 2026-11-21 09:52:10.120Z | 12,400 | 1,310 | 8,000 | 200 |
| write | 🔄 in-progress | 2026-11-21 09:52:11.000Z | – | 600 | 40 | 0 | 0 |
| send | ⬜ pending | – | – | 0 | 0 | 0 | 0 |
| **total** |  |  |  | 13,000 | 1,350 | 8,000 | 200 |

| resume |  |
| --- | --- |
| last completed phase | research |
| next phase | write |
| next step | continue with write |
| can resume | no: a process is at work &#124; here |

<!-- turns:end -->

<!-- turns:phase "research" -->

## Research the market

> Three sources:
>
> - the register
> - \`prices.csv\`
>
> ## Not a heading of ours

<!-- turns:end -->

<!-- turns:phase "write" -->

## write

<!-- turns:end -->

<!-- turns:phase "send" -->

## send

<!-- turns:end -->
`;

describe("S5.1 what the file says", () => {
  test("S5.1 title with the thread, status, times, notes and tokens of each phase, resume info, total tokens", async () => {
    const { text } = await fileWith(example);
    expect(text()).toBe(EXAMPLE);
  });

  test("S5.1 docs/checkpoint-file.md shows a file as it is written", () => {
    // The page gives a reason as the runner writes it, the test one that has to be escaped.
    const shown = EXAMPLE.replace("a process is at work &#124; here", "a process is running the thread");
    expect(readFileSync(join(__dirname, "..", "..", "docs", "checkpoint-file.md"), "utf8")).toContain(
      shown.split('<!-- turns:phase "write"')[0],
    );
  });
});

describe("S5.2 reading", () => {
  test("S5.2 null if there is no file, nor a folder for it", async () => {
    const { file, path } = await fileWith();
    expect(await file.read()).toBeNull();
    expect(await new CheckpointFile(join(path, "..", "no", "such", "CHECKPOINT.md")).read()).toBeNull();
    expect(await file.getResumePoint()).toBeNull();
  });

  test("S5.2 a typed object is restored", async () => {
    const { file } = await fileWith(example);
    expect(await file.read()).toEqual(example);
  });

  test("S5.2 what a formatter and a person do to the layout does not change what is read", async () => {
    const { file, path, text } = await fileWith(example);
    const aligned = text()
      .replace("| phase | status |", "|   phase    |   status    |")
      .replaceAll("| 🔄 in-progress |", "|completed|")
      .replace("2026-11-21 09:52:11.000Z", "2026-11-21T09:52Z")
      .replace("12,400", "12400")
      .replaceAll(" -->\n\n##", " -->\n##")
      .replace(">\n> - the register", ">\n>- the register");
    writeFileSync(path, aligned);
    const read = await file.read();
    expect(read?.phases[1]).toMatchObject({ status: "completed", startedAt: new Date("2026-11-21T09:52:00.000Z") });
    expect(read?.phases[0]).toEqual(example.phases[0]);
    await file.write(read!);
    expect(text()).toBe(aligned);
  });

  test.each<[string, (text: string) => string, number, string]>([
    ["no progress at all", () => "# My notes\n", 1, "turns:progress"],
    ["an empty file", () => "", 1, "turns:progress"],
    ["a newer format", (text) => text.replace("progress 1", "progress 2"), 1, 'version 1 of the format, and has "2"'],
    ["another title", (text) => text.replace("# Progress of", "# State of"), 3, "# Progress of"],
    ["an unknown status", (text) => text.replace("✅ completed", "✅ done"), 7, "a status, one of pending, in-progress"],
    ["a time that does not exist", (text) => text.replace("2026-11-21 09:50", "2026-02-30 09:50"), 7, "a time in UTC"],
    ["tokens that are no number", (text) => text.replace("12,400", "many"), 7, "a number of tokens"],
    ["a total that is not the sum", (text) => text.replace("13,000", "13,001"), 10, "totals.input"],
    ["a row without a section", (text) => text.replace("| send |", "| ship |"), 9, 'none for "ship"'],
    ["a missing row", (text) => text.replace(/\| send .*\n/, ""), 39, 'a section for "send"'],
    [
      "a phase twice in the table",
      (text) => text.replace("| send |", "| write |").replace(/\n<!-- turns:phase "send[^]*$/, ""),
      9,
      "an id that no other phase has",
    ],
    ["a section twice", (text) => text.replace('phase "send"', 'phase "write"'), 40, 'another for "write"'],
    ["an id without quotes", (text) => text.replace('phase "send"', "phase send"), 40, "the id of a phase in quotes"],
    ["a next phase that is none", (text) => text.replace("next phase | write", "next phase | dance"), 12, "the id of a phase"],
    ["neither yes nor no", (text) => text.replace("no: a process", "perhaps"), 17, "yes, or no: and why not"],
    ["a missing end", (text) => text.replace(/<!-- turns:end -->\n$/, ""), 40, "turns:end"],
    ["a code fence that hides the rest", (text) => text.replace("## write", "## write\n\n```"), 34, "a code fence or a comment"],
    ["an end too many", (text) => `${text}\n<!-- turns:end -->\n`, 46, "a block of ours before"],
    ["an unknown marker", (text) => `${text}\n<!-- turns:note -->\n`, 46, '"turns:note"'],
    ["two progresses", (text) => text + text, 45, "one block of progress"],
    ["a phase without a heading", (text) => text.replace("## send\n", "send\n"), 40, "a heading with the name"],
    ["a heading of another level", (text) => text.replace("## send\n", "### send\n"), 42, '"## …"'],
    ["two quotes", (text) => text.replace("## send\n", "## send\n\n> a\n\nb\n\n> c\n"), 48, "one quote with the notes"],
    ["a missing table", (text) => text.replace("| resume |", "| to do |"), 1, "one table of how to resume"],
    ["a missing row of it", (text) => text.replace(/\| next step .*\n/, ""), 16, '"next step"'],
    ["a missing total", (text) => text.replace(/\| \*\*total.*\n/, ""), 9, "**total**"],
    ["another column", (text) => text.replace("| started |", "| begun |"), 5, 'a column "started"'],
  ])("S5.2 %s is refused with its line, and neither a write nor an update touches it", async (_, change, line, problem) => {
    const { file, path, text } = await fileWith(example);
    const changed = change(text());
    writeFileSync(path, changed);
    const error = await file.read().catch((each: unknown) => each);
    expect(TurnsError.is(error, "CHECKPOINT_FILE_MALFORMED")).toBe(true);
    expect((error as TurnsError).message).toMatch(
      new RegExp(`^Line ${line} of CHECKPOINT.md can't be read: it should have .+, and has .+\\. Correct the line`),
    );
    expect((error as TurnsError).message).toContain(problem);
    expect((error as TurnsError).data).toMatchObject({ line });
    await expect(file.logTokens("write", { input: 1 })).rejects.toMatchObject({ code: "CHECKPOINT_FILE_MALFORMED" });
    // Over an empty file nothing is lost.
    if (changed !== "") await expect(file.write(example)).rejects.toMatchObject({ code: "CHECKPOINT_FILE_MALFORMED" });
    expect(text()).toBe(changed);
  });
});

describe("S5.2 people's text", () => {
  const mine = (text: string): string =>
    `---\ntitle: mine\n---\n\n${text
      .replace("# Progress of order-17\n", "# Progress of order-17\n\nWhat this is about.\n")
      .replace(
        '<!-- turns:phase "write" -->',
        'I like this.\n\n<!-- a reminder -->\n\n### Detail\n\n<!-- turns:phase "write" -->',
      )
      .replace("## write\n", "## write\n\nOnly on Tuesdays.\n")}\n## My section\n\n> to do\n`;

  test("S5.2 text, comments, headings and sections of people stay where they are through every kind of change", async () => {
    const { file, path, text } = await fileWith(example);
    const before = mine(text());
    writeFileSync(path, before);
    await file.write(example);
    expect(text()).toBe(before);
    await file.updatePhase("write", { notes: "One\n\nTwo", name: "Write it", status: "completed" });
    await file.markPhaseFailed("send", "no network");
    const changed = text();
    expect(changed).toContain("## Write it\n\n> One\n>\n> Two\n\nOnly on Tuesdays.\n\n<!-- turns:end -->");
    await file.updatePhase("write", { notes: "", name: "write" });
    expect(text()).toContain("## write\n\nOnly on Tuesdays.\n\n<!-- turns:end -->");
    const back = { ...example, threadId: "order-17" };
    await file.write(back);
    expect(text()).toBe(before);
  });

  test("S5.2 a new phase comes behind what belongs to the one before it, and before a section of people's own", async () => {
    const { file, path, text } = await fileWith(example);
    writeFileSync(path, `${text()}\nabout sending\n\n## My section\n\nmine\n`);
    await file.write({ ...example, phases: [...example.phases, phase("bill")] });
    expect(text()).toMatch(
      /about sending\n\n<!-- turns:phase "bill" -->\n\n## bill\n\n<!-- turns:end -->\n\n## My section\n\nmine\n$/,
    );
  });

  test("S5.2 a code fence that is left open at the end does not swallow a new phase", async () => {
    const { file, path, text } = await fileWith(example);
    writeFileSync(path, `${text()}\n\`\`\`\nopen`);
    const more = { ...example, phases: [...example.phases, phase("bill")] };
    await file.write(more);
    expect(await file.read()).toEqual(more);
    expect(text()).toMatch(/<!-- turns:phase "bill" -->[^`]*\n```\nopen$/);
  });

  test("S5.2 a phase that goes leaves what people wrote there, and its notes", async () => {
    const { file, path, text } = await fileWith(example);
    writeFileSync(path, mine(text()));
    await file.write(progressOf([]));
    const left = text();
    for (const line of [
      "I like this.",
      "<!-- a reminder -->",
      "### Detail",
      "Only on Tuesdays.",
      "> - the register",
      "> to do",
    ]) {
      expect(left).toContain(line);
    }
    expect(left).not.toContain("turns:phase");
    expect(left).not.toContain("## send");
    expect(await file.read()).toEqual(progressOf([]));
  });

  test("S5.2 line ends and the byte order mark of an editor stay", async () => {
    const { file, path, text } = await fileWith(example);
    writeFileSync(path, `\ufeff${text().replaceAll("\n", "\r\n")}`);
    await file.updatePhase("send", { notes: "a\nb" });
    expect(text().startsWith("\ufeff<!-- turns")).toBe(true);
    expect(text()).toContain("## send\r\n\r\n> a\r\n> b\r\n\r\n<!--");
    expect(text().replaceAll("\r\n", "")).not.toMatch(/[\r\n]/);
  });

  test("S5.2 a change that an editor saves while an update is under way is kept", async () => {
    const { path, text } = await fileWith(example);
    let saved = false;
    // The clock is asked between reading and writing.
    const file = new CheckpointFile(path, {
      clock: () => {
        if (!saved) writeFileSync(path, `${text()}\nJust typed.\n`);
        saved = true;
        return NOW;
      },
    });
    await file.logTokens("send", { input: 5 });
    expect(text()).toContain("Just typed.");
    expect((await file.read())?.phases[2]?.tokens.input).toBe(5);
  });
});

describe("S5.2 writing", () => {
  test("S5.2 parent folders are created, permissions kept, nothing is left beside the file", async () => {
    const path = join(tempFile("x"), "..", "a", "b", "CHECKPOINT.md");
    const file = new CheckpointFile(path);
    await file.write(example);
    chmodSync(path, 0o640);
    await file.logTokens("send", { input: 1 });
    expect(statSync(path).mode & 0o777).toBe(0o640);
    expect(readdirSync(dirname(path))).toEqual(["CHECKPOINT.md"]);
  });

  test("S5.2 what is the same is not written again", async () => {
    const { file, path } = await fileWith(example);
    const { ino } = statSync(path);
    await file.write(example);
    expect(statSync(path).ino).toBe(ino);
  });

  test("S5.2 a link stays a link, also one to a file that is not there yet; updates through it and beside it do not lose each other", async () => {
    const { path } = await fileWith();
    const target = join(dirname(path), "elsewhere", "REAL.md");
    symlinkSync(join("elsewhere", "REAL.md"), path);
    const [through, beside] = [new CheckpointFile(path), new CheckpointFile(target)];
    await through.write(example);
    expect(lstatSync(path).isSymbolicLink()).toBe(true);
    expect(readlinkSync(path)).toBe(join("elsewhere", "REAL.md"));
    await Promise.all(Array.from({ length: 10 }, (_, index) => (index % 2 ? through : beside).logTokens("send", { input: 1 })));
    expect((await beside.read())?.phases[2]?.tokens.input).toBe(10);
    expect(lstatSync(target).isFile()).toBe(true);
  });

  test("S5.2 a read-only folder, a folder in the file's place and a file in the folder's place are named errors", async () => {
    const { path } = await fileWith();
    mkdirSync(join(path, "..", "folder.md"));
    writeFileSync(join(path, "..", "plain"), "");
    for (const wrong of [join(path, "..", "folder.md"), join(path, "..", "plain", "CHECKPOINT.md")]) {
      await expect(new CheckpointFile(wrong).write(example)).rejects.toMatchObject({ code: "CHECKPOINT_FILE_UNAVAILABLE" });
    }
    const closed = join(path, "..", "closed", "CHECKPOINT.md");
    await new CheckpointFile(closed).write(example);
    const before = readFileSync(closed, "utf8");
    await asNobody(join(path, ".."), async () => {
      chmodSync(dirname(closed), 0o555);
      const refused = new CheckpointFile(closed).markPhaseComplete("send");
      await expect(refused).rejects.toMatchObject({ code: "CHECKPOINT_FILE_UNAVAILABLE" });
      chmodSync(dirname(closed), 0o755);
    });
    expect(readFileSync(closed, "utf8")).toBe(before);
    expect(readdirSync(dirname(closed))).toEqual(["CHECKPOINT.md"]);
  });

  laneTest(
    "S5.2 S3.8 kill -9 in the middle of writing: the file is always whole, what was acknowledged is in it, and remains are cleared away",
    async () => {
      const { path } = await fileWith();
      for (let kill = 0; kill < runs(3, 6); kill += 1) {
        const acknowledged = await killedWriter(path, 4 + kill * 3, kill % 3);
        const read = await new CheckpointFile(path).read();
        const round = read!.totals.input;
        expect(round === acknowledged || round === acknowledged + 1).toBe(true);
        expect(read!.phases[0]!.notes).toBe(`round ${round}\n\n${"a line of notes\n".repeat((round * 997) % 4000)}`);
      }
      const left = join(dirname(path), ".CHECKPOINT.md.0b3d.turns-tmp");
      writeFileSync(left, "half");
      utimesSync(left, 1, 1);
      await new CheckpointFile(path).logTokens("p", { output: 1 });
      expect(existsSync(left)).toBe(false);
    },
    300_000,
  );
});

describe("S5.3 updates of one phase", () => {
  test("S5.3 updatePhase changes one phase, keeps the rest, and recomputes totals and resume info", async () => {
    const { file } = await fileWith(example);
    const told = await file.updatePhase("send", { status: "in-progress", notes: "now", tokens: { output: 7 } });
    const read = await file.read();
    expect(told).toEqual(read);
    expect(read?.phases.slice(0, 2)).toEqual(example.phases.slice(0, 2));
    expect(read?.phases[2]).toEqual(phase("send", "in-progress", { notes: "now", startedAt: NOW, tokens: tokens(0, 7) }));
    expect(read?.totals).toEqual(tokens(13_000, 1_357, 8_000, 200));
  });

  test("S5.3 markPhaseComplete ends a phase now, and the next one is the next", async () => {
    const { file } = await fileWith(example);
    await file.markPhaseComplete("write", { tokens: { reasoning: 3 } });
    const read = await file.read();
    expect(read?.phases[1]).toMatchObject({ status: "completed", endedAt: NOW, startedAt: example.phases[1]?.startedAt });
    expect(read?.phases[1]?.tokens).toEqual(tokens(600, 40, 0, 3));
    expect(read?.resume).toEqual({
      lastPhase: "write",
      nextPhase: "send",
      nextStep: "begin send",
      canResume: true,
      reason: null,
    });
  });

  test("S5.3 markPhaseFailed notes why, once, and completion takes it away again; other notes stay", async () => {
    const { file } = await fileWith(example);
    await file.updatePhase("write", { notes: "Draft is in *docs*." });
    await file.markPhaseFailed("write", "no | paper\nleft");
    await file.markPhaseFailed("write", "no ink");
    expect((await file.read())?.phases[1]).toMatchObject({
      status: "failed",
      endedAt: NOW,
      notes: "Draft is in *docs*.\n\n**Failed:** no ink",
    });
    await file.markPhaseComplete("write");
    expect((await file.read())?.phases[1]?.notes).toBe("Draft is in *docs*.");
  });

  test("S5.3 logTokens adds", async () => {
    const { file } = await fileWith(example);
    await file.logTokens("send", { input: 10, cached: 4 });
    await file.logTokens("send", { input: 1, output: 2 });
    expect((await file.read())?.phases[2]?.tokens).toEqual(tokens(11, 2, 4, 0));
    expect((await file.read())?.totals).toEqual(tokens(13_011, 1_352, 8_004, 200));
  });

  test("S5.3 updates at the same time, through one object or several, do not lose one", async () => {
    const { file, path } = await fileWith(example);
    const others = [file, new CheckpointFile(path), new CheckpointFile(join(path, "..", ".", "CHECKPOINT.md"))];
    await Promise.all([
      ...Array.from({ length: 30 }, (_, index) => others[index % 3]!.logTokens("send", { input: 1 })),
      file.markPhaseComplete("write"),
      file.updatePhase("nobody", {}).catch(() => undefined),
      others[1]!.updatePhase("research", { notes: "other" }),
    ]);
    const read = await file.read();
    expect(read?.phases.map((each) => [each.status, each.notes, each.tokens.input])).toEqual([
      ["completed", "other", 12_400],
      ["completed", "", 600],
      ["pending", "", 30],
    ]);
  });

  test("S5.3 an unknown phase and a missing file are refused by name; nothing is changed or created", async () => {
    const { file, text } = await fileWith(example);
    for (const update of [
      file.updatePhase("x", { status: "completed" }),
      file.markPhaseComplete("x"),
      file.markPhaseFailed("x", "why"),
      file.logTokens("x", { input: 1 }),
    ]) {
      await expect(update).rejects.toMatchObject({ code: "UNKNOWN_PHASE", data: { id: "x" } });
    }
    expect(text()).toBe(EXAMPLE);
    const none = await fileWith();
    await expect(none.file.logTokens("x", { input: 1 })).rejects.toMatchObject({ code: "CHECKPOINT_FILE_UNAVAILABLE" });
    expect(existsSync(none.path)).toBe(false);
  });

  test("S5.3 bad input is refused by name, and nothing is written", async () => {
    const { file, text } = await fileWith(example);
    const wrong: [Promise<unknown>, string][] = [
      [file.updatePhase("write", { status: "done" as PhaseStatus }), "status"],
      [file.updatePhase("write", { tokens: { input: -1 } }), "tokens.input"],
      [file.updatePhase("write", { mood: "good" } as never), "mood"],
      [file.updatePhase("write", { endedAt: new Date(Number.NaN) }), "endedAt"],
      [file.markPhaseComplete("write", { status: "failed" } as never), "status"],
      [file.markPhaseFailed("write", 7 as never), "reason"],
      [file.logTokens("write", { input: 1.5 }), "input"],
      [file.write({ ...example, threadId: "" }), "threadId"],
      [file.write({ ...example, totals: tokens(1) }), "totals.input"],
      [file.write({ ...example, resume: { ...example.resume, reason: null } }), "resume.reason"],
      [file.write({ ...example, phases: [phase("a"), phase("a")] }), "phases.1.id"],
      [file.write(null as never), ""],
    ];
    for (const [work, option] of wrong) {
      await expect(work).rejects.toMatchObject({ code: "INVALID_OPTION", data: { option } });
    }
    for (const path of ["", "a\0b", 7, undefined]) {
      expect(() => new CheckpointFile(path as string)).toThrow(expect.objectContaining({ code: "INVALID_OPTION" }));
    }
    expect(() => new CheckpointFile("x", { clock: 1 } as never)).toThrow(expect.objectContaining({ code: "INVALID_OPTION" }));
    expect(text()).toBe(EXAMPLE);
  });
});

describe("S5.4 getResumePoint", () => {
  const pointOf = async (phases: Phase[], resume?: Partial<Progress["resume"]>) => {
    const { file } = await fileWith(progressOf(phases, resume));
    return file.getResumePoint();
  };
  const spent = phase("a", "completed", { tokens: tokens(5, 1) });

  test("S5.4 in the middle: the last completed phase, the next one, totals", async () => {
    expect(await pointOf([spent, phase("b", "skipped"), phase("c", "in-progress"), phase("d")])).toEqual({
      lastCompleted: "a",
      nextPhase: "c",
      canResume: true,
      reason: null,
      totals: tokens(5, 1),
    });
  });

  test("S5.4 all done", async () => {
    const all = await pointOf([spent, phase("b", "skipped")]);
    expect(all).toMatchObject({ lastCompleted: "a", nextPhase: null, canResume: false, reason: "all phases are done" });
  });

  test("S5.4 none done, and none at all", async () => {
    expect(await pointOf([phase("a"), phase("b")])).toMatchObject({ lastCompleted: null, nextPhase: "a", canResume: true });
    expect(await pointOf([])).toMatchObject({ nextPhase: null, canResume: false, reason: "there are no phases yet" });
  });

  test("S5.4 failed: the failed phase is the next one", async () => {
    expect(await pointOf([spent, phase("b", "failed"), phase("c")])).toMatchObject({ nextPhase: "b", canResume: true });
  });

  test("S5.4 a refusal that the file gives stands while its phase is failed or running, and no longer", async () => {
    const refusal = { lastPhase: "a", nextPhase: "b", canResume: false, reason: "the licence has expired" };
    const { file } = await fileWith(progressOf([spent, phase("b", "failed"), phase("c")], refusal));
    expect(await file.getResumePoint()).toMatchObject({ nextPhase: "b", canResume: false, reason: "the licence has expired" });
    await file.logTokens("b", { input: 1 });
    expect(await file.getResumePoint()).toMatchObject({ canResume: false, reason: "the licence has expired" });
    await file.updatePhase("b", { status: "pending" });
    expect(await file.getResumePoint()).toMatchObject({ nextPhase: "b", canResume: true, reason: null });
    await file.markPhaseComplete("b");
    expect(await file.getResumePoint()).toMatchObject({ lastCompleted: "b", nextPhase: "c", canResume: true });
  });
});

/** Root may write everywhere: as somebody else, if we are root. */
async function asNobody(folder: string, work: () => Promise<void>): Promise<void> {
  if (process.getuid?.() !== 0) return work();
  for (const name of [folder, ...readdirSync(folder, { recursive: true }).map((each) => join(folder, String(each)))]) {
    chownSync(name, 65534, 65534);
  }
  process.seteuid!(65534);
  try {
    await work();
  } finally {
    process.seteuid!(0);
  }
}

/** Kills a writer a moment after its n-th acknowledged write; the last round it acknowledged. */
function killedWriter(path: string, writes: number, moment: number): Promise<number> {
  const script = join(__dirname, "report-kill-child.ts");
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [...childProgram(script), path], { env: { ...process.env, NODE_OPTIONS: "" } });
    let out = "";
    let err = "";
    child.stderr.on("data", (chunk) => (err += String(chunk)));
    child.stdout.on("data", (chunk) => {
      out += String(chunk);
      if (out.split("\n").length <= writes) return;
      // Now, when the next round of the loop is at work, or in the middle of it.
      if (moment === 0) child.kill("SIGKILL");
      else setTimeout(() => child.kill("SIGKILL"), moment);
    });
    child.on("close", (_code, signal) => {
      if (signal === "SIGKILL") resolve(Number(out.trim().split("\n").at(-1)));
      else reject(new Error(`the child ended by itself: ${err}`));
    });
  });
}
