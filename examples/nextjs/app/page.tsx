"use client";
import { useState } from "react";

export default function Page() {
  const [text, setText] = useState("");
  const [answer, setAnswer] = useState("");
  const [stop, setStop] = useState<AbortController>();

  async function send(): Promise<void> {
    const controller = new AbortController();
    setStop(controller);
    setAnswer("");
    try {
      const init = { method: "POST", body: JSON.stringify({ text }), signal: controller.signal };
      const { body } = await fetch("/api/threads/demo", init);
      const reader = body?.pipeThrough(new TextDecoderStream()).getReader();
      for (let part = await reader?.read(); part?.value !== undefined; part = await reader?.read()) {
        for (const [, token] of part.value.matchAll(/^event: token\ndata: (.*)$/gm))
          setAnswer((all) => all + JSON.parse(token ?? '""'));
      }
    } catch (error) {
      if (!controller.signal.aborted) throw error;
    } finally {
      setStop(undefined);
    }
  }

  return (
    <main>
      <input value={text} onChange={({ target }) => setText(target.value)} />
      <button onClick={() => void send()}>Send</button>
      <button disabled={stop === undefined} onClick={() => stop?.abort()}>
        Stop
      </button>
      <p>{answer}</p>
    </main>
  );
}
