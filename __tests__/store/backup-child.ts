import { TurnSaver } from "langgraph-checkpoint-turns";
import { save } from "../../torture/faults/histories";

/**
 * `save <file>`: goes on saving, from the eleventh checkpoint on, until its input ends; then tells how many there are.
 * `backup <file> <target> <when>`: backs up, and kills itself at that step of copying, at that one of verifying, or at the end.
 */
const quiet = { debug() {}, info() {}, warn() {}, error() {} };
const [, , what, path = "", target = "", when = ""] = process.argv;
const saver = TurnSaver.fromPath(path, { logger: quiet, synchronous: "normal" });

async function saveOn(): Promise<void> {
  let goesOn = true;
  process.stdin.on("end", () => (goesOn = false)).resume();
  let index = 10;
  for (; goesOn; index += 1) {
    await save(saver, index);
    if (index === 10) console.log("ready");
    await new Promise((resolve) => setImmediate(resolve));
  }
  saver.close();
  console.log(index);
}

async function backUp(): Promise<void> {
  const steps = { copy: 0, verify: 0 };
  await saver.backup(target, {
    onProgress: ({ phase }) => {
      steps[phase] += 1;
      const at = phase === "copy" ? `${steps.copy}` : `verify ${steps.verify}`;
      if (at === when) process.kill(process.pid, "SIGKILL");
    },
  });
  process.kill(process.pid, "SIGKILL");
}

void (what === "save" ? saveOn() : backUp());
