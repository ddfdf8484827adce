// Forwards connections, each piece so many milliseconds late. Arguments: host, port, delay. Tells its own port.
import { type AddressInfo, connect, createServer, type Socket } from "node:net";

const [host = "", port = "", delay = "0"] = process.argv.slice(2);
const delayMs = Number(delay);

/**
 * Node's timers are late by up to a millisecond, which would be as much again as the delay. So the rest of it is slept in short naps, and what
 * has come is taken between them. Without the naps the proxy would take a core from the saver and the server.
 */
const COARSE_MS = 2;
const NAP_MS = 0.05;
const bed = new Int32Array(new SharedArrayBuffer(4));

function forward(from: Socket, to: Socket): void {
  const waiting: { at: number; bytes: Buffer | undefined }[] = [];
  const send = (): void => {
    for (let first = waiting[0]; first !== undefined; first = waiting[0]) {
      const wait = first.at - performance.now();
      if (wait > 0) {
        if (wait > COARSE_MS) setTimeout(send, wait - COARSE_MS);
        else {
          Atomics.wait(bed, 0, 0, Math.min(wait, NAP_MS));
          setImmediate(send);
        }
        return;
      }
      waiting.shift();
      if (first.bytes === undefined) to.end();
      else to.write(first.bytes);
    }
  };
  const add = (bytes: Buffer | undefined): void => {
    waiting.push({ at: performance.now() + delayMs, bytes });
    if (waiting.length === 1) send();
  };
  from.on("data", add);
  from.on("end", () => add(undefined));
  from.on("error", () => to.destroy());
}

const server = createServer({ allowHalfOpen: true, noDelay: true }, (client) => {
  const upstream = connect({ host, port: Number(port), allowHalfOpen: true, noDelay: true });
  forward(client, upstream);
  forward(upstream, client);
});
server.listen(0, "127.0.0.1", () => process.send?.((server.address() as AddressInfo).port));
process.once("disconnect", () => process.exit());
