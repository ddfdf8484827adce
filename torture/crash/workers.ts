import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { join } from "node:path";
import type { Answer, BEGUN as Begun, Job } from "./child";
import type { Kill } from "./plan";

const SECONDS_MAX = 120;
// Not imported: child.ts is a program.
const BEGUN: typeof Begun = "begun";

/**
 * The child's program with all it needs in one CommonJS file, so that thousands of processes start quickly: LangGraph's hundreds of files
 * would take longer than most trials. Only the driver, which looks for its binary, stays outside. @returns its path
 */
export function bundledChild(root: string, folder: string): string {
  const entry = JSON.stringify([join(root, "torture", "crash", "child.ts")]);
  const options = `entry: ${entry}, format: ["cjs"], target: "node20", outDir: ${JSON.stringify(folder)}, config: false, silent: true`;
  const bundling = `require("tsup").build({ ${options}, external: ["better-sqlite3"], noExternal: [/^(?!better-sqlite3)/] })`;
  const { status, stderr } = spawnSync(process.execPath, ["-e", bundling], { cwd: root });
  if (status !== 0) throw new Error(String(stderr));
  return join(folder, "child.cjs");
}

/** A process that does jobs until one kills it; the next job then gets a new one. */
export class Worker {
  #process: ChildProcess | undefined;
  #stderr = "";

  constructor(
    readonly child: string,
    readonly root: string,
  ) {}

  /** @returns its answer, also if it came before the kill; or "killed" */
  async do(work: Omit<Job, "killAt">, kill: Kill | undefined): Promise<Answer | "killed"> {
    const process = (this.#process ??= this.#started());
    this.#stderr = "";
    return new Promise((resolve) => {
      let isHung = false;
      let clock: NodeJS.Timeout | undefined;
      // A process that is being killed gets no further job.
      const killed = (): void => {
        this.#process = undefined;
        process.kill("SIGKILL");
      };
      const timer = setTimeout(() => {
        isHung = true;
        killed();
      }, SECONDS_MAX * 1_000);
      const end = (result: Answer | "killed"): void => {
        clearTimeout(timer);
        clearTimeout(clock);
        process.removeAllListeners("message").removeAllListeners("close");
        resolve(result);
      };
      process.on("message", (message: Answer | typeof BEGUN) => {
        if (message !== BEGUN) end(message);
        else if (typeof kill === "object") clock = setTimeout(killed, kill.afterMs);
      });
      process.once("close", (code, signal) => {
        if (this.#process === process) this.#process = undefined;
        if (isHung) end({ error: `it did not end within ${SECONDS_MAX} s` });
        else if (signal === "SIGKILL" && kill !== undefined) end("killed");
        else end({ error: `the process exited with ${code ?? signal}: ${this.#stderr}` });
      });
      process.send({ ...work, killAt: typeof kill === "number" ? kill : undefined } satisfies Job);
    });
  }

  close(): void {
    this.#process?.disconnect();
    this.#process = undefined;
  }

  #started(): ChildProcess {
    const env = {
      ...process.env,
      NODE_OPTIONS: process.env.TURNS_TEST_NODE_OPTIONS ?? "",
      NODE_PATH: join(this.root, "node_modules"),
    };
    const started = spawn(process.execPath, [this.child], { env, stdio: ["ignore", "ignore", "pipe", "ipc"] });
    started.stderr?.on("data", (chunk) => (this.#stderr += String(chunk)));
    return started;
  }
}
