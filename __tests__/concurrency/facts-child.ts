/** A process that works on a file as it is told on its standard input, line by line, and answers each line. */
import { createInterface } from "node:readline";
import { openOn } from "../support/model-calls";
import { perform, type Task } from "./facts-world";

const saver = openOn(process.argv[2] as string);
process.stdout.write("ready\n");
createInterface({ input: process.stdin }).on("line", (line) => {
  void perform(saver, JSON.parse(line) as Task).then((answer) => process.stdout.write(`${JSON.stringify(answer)}\n`));
});
process.stdin.on("end", () => saver.close());
