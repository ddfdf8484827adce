import { fork } from "node:child_process";
import { fileURLToPath } from "node:url";

const CHILD = fileURLToPath(new URL("./slow-network-child.ts", import.meta.url));

/** The same database at the end of a network whose round trip takes so many milliseconds: a proxy in a process of its own. */
export async function overSlowNetwork(url: string, roundTripMs: number): Promise<{ url: string; end(): void }> {
  const target = new URL(url);
  const child = fork(CHILD, [target.hostname, target.port || "5432", String(roundTripMs / 2)]);
  const port = await new Promise<number>((resolve, reject) => {
    child.once("message", (message) => resolve(message as number));
    child.once("exit", (code) => reject(new Error(`the proxy exited with ${code}`)));
  });
  const slow = Object.assign(new URL(url), { hostname: "127.0.0.1", port: String(port) });
  return { url: slow.href, end: () => child.kill() };
}
