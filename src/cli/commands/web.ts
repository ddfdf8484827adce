import { spawn } from "node:child_process";
import { existsSync, realpathSync } from "node:fs";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { serve, type Viewer, type ViewerOptions } from "../../viewer/server";
import { command, oneOf, whole } from "../command";
import { INTERRUPTED, messageOf, UsageError } from "../exit";
import { loadGraph } from "../graph-module";
import { interruptible } from "../interrupt";
import { print } from "../output";
import { type DatabaseOptions, passwordNote, toCopy } from "../place";
import { safe } from "../text";

/** The build puts the package's version here. */
declare const TURNS_VERSION: string | undefined;

export interface WebOptions extends DatabaseOptions {
  port?: number;
  write?: boolean;
  graph?: string;
  open?: boolean;
  theme?: ViewerOptions["theme"];
}

export const WEB = command<WebOptions>({
  name: "web",
  summary: "a page on this machine with everything about your threads",
  examples: ["turns agent.db web", "turns web --port 4100 --open", "turns web --write --graph ./agent.ts#graph"],
  options: [
    ["--port <port>", "where to listen on 127.0.0.1 (default: one that is free)", port],
    ["--write", "allow changes, each after you typed the thread's id: answer, resume, rewind, settle an effect"],
    ["--graph <module>", "the graph to resume with, and to compare with what was recorded: ./agent.ts#graph"],
    ["--open", "open it in your browser"],
    ["--no-open", "open no browser (default)"],
    ["--theme <theme>", "auto (default: as your system), light or dark", oneOf(["auto", "light", "dark"])],
  ],
  run: async (saver, _, { port: wanted = 0, write = false, graph: module, open = false, theme = "auto" }) => {
    const loaded = module === undefined ? undefined : await loadGraph(module, saver);
    if (loaded?.remark !== undefined) process.stderr.write(`turns: ${loaded.remark}\n`);
    const viewer = await listening({
      ...{ saver, write, theme, port: wanted, folder: pageFolder() },
      program: toCopy("turns"),
      graph: loaded && { runner: loaded.runner, name: module ?? "" },
      version: typeof TURNS_VERSION === "string" ? TURNS_VERSION : "unknown",
      report: (what, error) =>
        process.stderr.write(`turns: ${safe(error === undefined ? what : `${what}: ${messageOf(error)}`)}\n`),
    });
    const own = loaded?.runner.saver ?? saver;
    try {
      await interruptible(async (signal) => {
        await shown(viewer, { write, open }, signal);
        await viewer.close();
        // An effect or an undo that was started from the page would be in doubt if it were cut off.
        await own.drain();
      }, "stopping behind what is running");
    } finally {
      await viewer.close();
      if (own !== saver) await (own.close() as unknown);
    }
    return { data: {}, text: () => "", isWritten: true, exit: INTERRUPTED };
  },
});

function port(text: string): number {
  const value = whole(text);
  if (value <= 65_535) return value;
  throw new UsageError(`There is no port ${text}.`, "Give a number up to 65535.");
}

/** Built into the folder beside the program; in the source tree, into dist/. */
function pageFolder(): string {
  const beside = dirname(realpathSync(process.argv[1] ?? "."));
  const places = [join(beside, "viewer"), join(beside, "..", "..", "dist", "viewer")] as const;
  return places.find((place) => existsSync(place)) ?? places[0];
}

/** @throws {UsageError} for a port that is taken */
async function listening(options: ViewerOptions): Promise<Viewer> {
  try {
    return await serve(options);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code !== "EADDRINUSE" && code !== "EACCES") throw error;
    const why = code === "EADDRINUSE" ? "is taken" : "isn't allowed to you";
    throw new UsageError(`Port ${options.port} ${why}.`, "Give another one, or leave --port out.");
  }
}

/** Prints the link, and waits for Ctrl-C. */
async function shown(viewer: Viewer, { write, open }: { write: boolean; open: boolean }, signal: AbortSignal): Promise<void> {
  const link = viewer.newLink();
  print(`${link}\n`);
  const { stdin, stderr } = process;
  const what = write ? "Changes are allowed" : "Read-only";
  const enter = stdin.isTTY ? "; Enter prints a new one" : "";
  stderr.write(`${what}. The link works once, in one browser${enter}. Ctrl-C ends it.${passwordNote(toCopy("turns"))}\n`);
  if (open) openBrowser(link);
  const lines = stdin.isTTY ? createInterface({ input: stdin }) : undefined;
  lines?.on("line", () => print(`${viewer.newLink()}\n`));
  await new Promise<void>((resolve) => {
    signal.addEventListener("abort", () => resolve(), { once: true });
    process.once("SIGTERM", () => resolve());
  });
  lines?.close();
}

const OPENERS: Partial<Record<NodeJS.Platform, readonly string[]>> = {
  darwin: ["open"],
  win32: ["cmd", "/c", "start", '""'],
};

/** Without one, the printed link is enough. */
function openBrowser(link: string): void {
  const [program = "xdg-open", ...args] = OPENERS[process.platform] ?? ["xdg-open"];
  const child = spawn(program, [...args, link], { stdio: "ignore", detached: true });
  child.on("error", () => process.stderr.write("turns: no browser could be opened; open the link yourself.\n"));
  child.unref();
}
