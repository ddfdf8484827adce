import type { ComponentChildren, VNode } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { ofThread } from "../addresses";
import type { Done, Since } from "../api";
import { ask, type Problem, tell } from "./ask";
import { refresh, say } from "./live";
import { server } from "./server";
import { store } from "./store";
import { LongText, Text } from "./text";

/** Whether the page may change something: with `--write`. */
export const mayWrite = (): boolean => server.get()?.write === true;

/** The dialog that is open. */
const shown = store<(() => VNode) | undefined>(undefined);
export const open = (dialog: () => VNode): void => shown.set(dialog);
export const close = (): void => shown.set(undefined);
export const isOpen = (): boolean => shown.get() !== undefined;

/** What the last change did. It stays until somebody closes it. */
export const outcome = store<Done | undefined>(undefined);

export function OpenDialog(): VNode | null {
  const dialog = shown.use();
  return dialog === undefined ? null : dialog();
}

/** A modal dialog: the browser keeps the focus in it, and gives it back. */
export function Dialog({ title, children, wide = false }: { title: string; children: ComponentChildren; wide?: boolean }): VNode {
  const box = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => {
    const before = document.activeElement;
    const dialog = box.current;
    dialog?.showModal();
    // What a person came for, and not the button that leads away. Its top stays in sight.
    dialog?.querySelector<HTMLElement>("form input, form textarea")?.focus({ preventScroll: true });
    return () => {
      dialog?.close();
      if (before instanceof HTMLElement && before.isConnected) before.focus();
    };
  }, []);
  return (
    <dialog ref={box} class={wide ? "wide" : ""} aria-labelledby={id} onCancel={close} onClose={close}>
      <div class="dialog-head">
        <h2 id={id}>{title}</h2>
        <button type="button" class="quiet" onClick={close}>
          Close
        </button>
      </div>
      {children}
    </dialog>
  );
}

/** As a page shows a text: line ends and runs of spaces are one space. */
const flat = (text: string | null | undefined): string => `${text}`.trim().replace(/\s+/g, " ");

const TRIES = 5;

/** The answer to a change was lost: neither a success nor a failure. What the database says of it. */
async function cutOff(address: string): Promise<Problem> {
  const lost = "The answer was lost: this page can't tell whether it was done.";
  for (let tries = 1; ; tries += 1) {
    try {
      const { headline } = await ask<Since>(address);
      return { code: "ANSWER LOST", message: `${lost} The database says: ${headline}`, data: {} };
    } catch (failed) {
      const { code, message } = failed as Problem;
      if (code !== "UNREACHABLE" || tries === TRIES)
        return { code: "ANSWER LOST", message: `${lost} ${message} Look at the thread first.`, data: {} };
    }
    await new Promise((resolve) => setTimeout(resolve, 1_000));
  }
}

/**
 * A change of the thread, with the thread's id typed to confirm it.
 *
 * @param effect the id of the effect that it's about
 * @param body what is sent beside the confirmation; undefined: what was filled in isn't complete
 */
export function Change({
  title,
  verb,
  thread,
  address,
  effect,
  body,
  children,
}: {
  title: string;
  verb: string;
  thread: string;
  effect?: string;
  address: string;
  body: () => object | undefined;
  children: ComponentChildren;
}): VNode {
  const [typed, setTyped] = useState("");
  const [problem, setProblem] = useState<Problem | undefined>();
  const [busy, setBusy] = useState(false);
  const id = useId();
  const code = useRef<HTMLElement>(null);
  // The id as it is, or as it's shown.
  const isConfirmed = typed === thread || (typed !== "" && flat(typed) === flat(code.current?.textContent));
  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    if (busy) return;
    if (!isConfirmed) return setProblem({ code: "NOT CONFIRMED", message: `Type the thread's id: ${thread}`, data: {} });
    const rest = body();
    if (rest === undefined) return setProblem({ code: "NOT COMPLETE", message: "Choose or fill in first.", data: {} });
    setBusy(true);
    let mark: string | undefined;
    try {
      ({ mark } = await ask<Since>(ofThread(thread, "since")));
      const done = await tell<Done>(address, { ...rest, confirm: thread });
      outcome.set(done);
      say(done.headline);
      refresh();
      close();
    } catch (failed) {
      const refused = failed as Problem;
      // Without a mark nothing was sent.
      setProblem(mark && refused.code === "UNREACHABLE" ? await cutOff(ofThread(thread, "since", { mark, effect })) : refused);
      setBusy(false);
      refresh();
    }
  };
  return (
    <Dialog title={title}>
      <form onSubmit={(event) => void submit(event)} autocomplete="off">
        {children}
        <p class="field">
          <label for={id}>
            To confirm, type the thread's id:{" "}
            <code ref={code}>
              <Text of={thread} />
            </code>
          </label>
          <input
            id={id}
            name="confirm"
            value={typed}
            spellcheck={false}
            onInput={(event) => setTyped(event.currentTarget.value)}
          />
        </p>
        {problem !== undefined && (
          <div class="trouble" role="alert">
            <LongText of={problem.message} />
            <span class="code">{problem.code}</span>
          </div>
        )}
        <p class="buttons">
          <button type="button" onClick={close}>
            Cancel
          </button>
          <button type="submit" class="action" aria-disabled={!isConfirmed || busy}>
            {busy ? "Working …" : verb}
          </button>
        </p>
      </form>
    </Dialog>
  );
}
