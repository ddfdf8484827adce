import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import { openSaver } from "../support/open-saver";
import { tempFile } from "../support/temp";
import { widthOf } from "../../src/testing-internal";
import { builtProgram, quickProgram } from "./built";
import { makeThreads } from "./cli-world";
import { normalised, recorded, RECORDING } from "./recorded";

jest.setTimeout(300_000);

/** The program on a real terminal, which tmux is; without tmux these tests are counted as skipped. On PostgreSQL it's the same. */
const onTerminal = spawnSync("tmux", ["-V"]).status === 0 ? test : test.skip;
let program = "";
let quick = "";
const file = tempFile();

beforeAll(async () => {
  program = builtProgram();
  quick = quickProgram();
  const saver = openSaver(file);
  await makeThreads(saver);
  saver.close();
}, 400_000);

let sessions = 0;

interface Terminal {
  /** Waits until the screen has a text. @returns the screen, with colours as escapes if wanted */
  shows: (text: string | RegExp, colours?: boolean) => string;
  keys: (...names: string[]) => void;
}

/** Runs a line of a shell on a terminal of so many columns. */
function onScreen(line: string, columns: number, use: (terminal: Terminal) => void, rows = 40): void {
  const socket = `turns-${process.pid}-${(sessions += 1)}`;
  const tmux = (...args: string[]) => spawnSync("tmux", ["-f", "/dev/null", "-L", socket, ...args], { encoding: "utf8" });
  const shell = `unset NO_COLOR FORCE_COLOR NODE_OPTIONS PAGER TURNS_PAGER; cd ${process.cwd()}; ${line}; echo "exit $?"; sleep 300`;
  tmux("new-session", "-d", "-x", String(columns), "-y", String(rows), shell);
  try {
    use({
      keys: (...names) => void tmux("send-keys", ...names),
      shows: (text, colours = false) => {
        let screen = "";
        for (let tries = 0; tries < 1_000; tries += 1) {
          screen = tmux("capture-pane", "-p", ...(colours ? ["-e"] : [])).stdout;
          if (typeof text === "string" ? screen.includes(text) : text.test(screen)) return screen;
          spawnSync("sleep", ["0.1"]);
        }
        throw new Error(`The screen never showed ${String(text)}:\n${screen}`);
      },
    });
  } finally {
    tmux("kill-server");
  }
}

const turns = (args: string, env = ""): string => `${env} ${process.execPath} ${quick} ${args} --db ${file}`;

describe("on a terminal", () => {
  onTerminal.each([80, 200])("S10.1 %i columns: every list fits, and colours tell the state", (columns) => {
    for (const args of ["threads", "log finished", "log finished --graph", "effects finished", "inbox", "rewinds finished"]) {
      onScreen(turns(args), columns, ({ shows }) => {
        const screen = shows("exit 0");
        // A line that is too long would be wrapped, and so be more lines than there are.
        const lines = screen.slice(0, screen.indexOf("exit 0")).trimEnd().split("\n");
        expect(lines.filter((line) => widthOf(line) > columns)).toEqual([]);
        const told = spawnSync(process.execPath, [quick, ...args.split(" "), "--table", "--db", file], {
          encoding: "utf8",
          env: { ...process.env, NODE_OPTIONS: "", COLUMNS: String(columns) },
        });
        // Only a command may be longer, so that it can be copied.
        const rows = told.stdout.trimEnd().split("\n").map((line) => (/^ {2}turns /.test(line) ? Math.ceil(widthOf(line) / columns) : 1)); // prettier-ignore
        expect({ args, lines: lines.length }).toEqual({ args, lines: rows.reduce((sum, row) => sum + row, 0) });
      });
    }
    onScreen(turns("threads"), columns, ({ shows }) => expect(shows("exit 0", true)).toContain("\u001b[32mfinished"));
    onScreen(turns("threads", "TERM=dumb"), columns, ({ shows }) => expect(shows("exit 0", true)).not.toContain("\u001b[32m"));
    onScreen(turns("threads", "NO_COLOR=1"), columns, ({ shows }) => expect(shows("exit 0", true)).not.toContain("\u001b[32m"));
  });

  onTerminal("S10.1 a pager opens if there is more than the screen has, and only then", () => {
    const pager = `TURNS_PAGER='cat > /dev/null; echo paged; true'`;
    onScreen(turns("log finished", pager), 80, ({ shows }) => expect(shows("exit 0")).toContain("paged"), 5);
    onScreen(turns("log finished", pager), 80, ({ shows }) => expect(shows("exit 0")).not.toContain("paged"), 40);
    onScreen(turns("log finished --no-pager", pager), 80, ({ shows }) => expect(shows("exit 0")).not.toContain("paged"), 5);
    onScreen(`${turns("log finished", pager)} | cat`, 80, ({ shows }) => expect(shows("exit 0")).not.toContain("paged"), 5);
  });

  onTerminal("S10.1 tail shows what is saved in lines, and Ctrl-C ends it with 130 and the way to continue", () => {
    onScreen(turns("tail waiting --since start"), 100, ({ shows, keys }) => {
      expect(shows("ask interrupted")).toMatch(/\d\d:\d\d:\d\d {2}waiting {2}#\d+ {2}plan starts \(task only\)/);
      keys("C-c");
      expect(shows("exit 130")).toContain("turns: continue with --since ");
    });
  });

  onTerminal("S10.1 Ctrl-C stops a resume behind the node that runs, and the same command continues", () => {
    const folder = mkdtempSync(path.join(process.cwd(), ".tmp", "interrupt-"));
    try {
      // Slow enough to press Ctrl-C while its node runs.
      const slow = (name: string) =>
        readFileSync(path.join("examples", "lighthouse", name), "utf8").replace("sleep(700)", "sleep(+(process.env.SLOW ?? 50))");
      for (const name of ["agent.ts", "run.ts"]) writeFileSync(path.join(folder, name), slow(name));
      expect(slow("agent.ts")).toContain("process.env.SLOW");
      const env = `LETTERS=${path.join(folder, "letters.txt")}`;
      const made = path.join(folder, "made.db");
      const makes = spawnSync(process.execPath, ["--import", "tsx", path.join(folder, "run.ts"), made], {
        encoding: "utf8",
        env: { ...process.env, NODE_OPTIONS: "" },
      });
      expect(makes.stderr).toBe("");
      const line = `${env} ${process.execPath} ${program} resume lighthouse --graph ${folder}/agent.ts --db ${made}`;
      onScreen(`SLOW=10000 ${line} --yes`, 120, ({ shows, keys }) => {
        shows("now work_b");
        keys("C-c");
        const screen = shows("exit 130").replaceAll("\n", "");
        expect(screen).toContain("stopping behind the nodes that are running");
        expect(screen).toMatch(/Continue: turns \S+ resume lighthouse --graph/);
      });
      onScreen(`${line} --yes`, 120, ({ shows }) => expect(shows(/exit \d/)).toContain("finished"));
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  });
});

test("S10.1 the recording in docs is what the program says today (else: npm run recording)", async () => {
  expect(normalised(await recorded(program))).toBe(normalised(readFileSync(RECORDING, "utf8")));
});
