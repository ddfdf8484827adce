import { Document } from "@langchain/core/documents";
import {
  AIMessage,
  AIMessageChunk,
  ChatMessage,
  ChatMessageChunk,
  FunctionMessage,
  FunctionMessageChunk,
  HumanMessage,
  HumanMessageChunk,
  RemoveMessage,
  SystemMessage,
  SystemMessageChunk,
  ToolMessage,
  ToolMessageChunk,
} from "@langchain/core/messages";
import { Command, COMMAND_SYMBOL, Overwrite, Send } from "@langchain/langgraph";
import { DeltaSnapshot } from "@langchain/langgraph-checkpoint";

const MESSAGE = Symbol.for("langchain.message");

/** A library class whose instances are their own enumerable properties. */
export interface InstanceClass {
  readonly tag: string;
  /** A fresh instance with nothing in it. What it has, and the saved value has too, is not written. */
  readonly make: () => object;
  /** True for an instance of another copy of the class. */
  readonly marks: (value: object) => boolean;
  /** The symbol key every instance owns. */
  readonly symbol?: symbol;
  /** Where an instance keeps the arguments of its constructor. */
  readonly args?: string | symbol;
  /** Arguments that became a property of another name. */
  readonly renamed?: Readonly<Record<string, string>>;
  /** Keep arguments that no longer agree with the properties. Off for messages: an edited content must not survive in its copy. */
  readonly keepStaleArgs?: boolean;
}

/** The messages of LangChain by name; also the allow-list for the official format. */
export const MESSAGE_CLASSES: Readonly<Record<string, new (fields: never) => object>> = Object.freeze({
  __proto__: null,
  AIMessage,
  AIMessageChunk,
  ChatMessage,
  ChatMessageChunk,
  FunctionMessage,
  FunctionMessageChunk,
  HumanMessage,
  HumanMessageChunk,
  RemoveMessage,
  SystemMessage,
  SystemMessageChunk,
  ToolMessage,
  ToolMessageChunk,
} as unknown as Record<string, new (fields: never) => object>);

/** What the constructors need besides a content; the values are overwritten when a message is read. */
const REQUIRED: Readonly<Record<string, object>> = {
  ChatMessage: { role: "" },
  ChatMessageChunk: { role: "" },
  FunctionMessage: { name: "" },
  FunctionMessageChunk: { name: "" },
  ToolMessage: { tool_call_id: "" },
  ToolMessageChunk: { tool_call_id: "" },
};

function messageClass(tag: string, type: new (fields: never) => object): InstanceClass {
  return {
    tag,
    make:
      tag === "RemoveMessage" ? () => new RemoveMessage({ id: "" }) : () => new type({ content: "", ...REQUIRED[tag] } as never),
    marks: (value) => (value as Record<symbol, unknown>)[MESSAGE] === true,
    symbol: MESSAGE,
    args: "lc_kwargs",
    renamed: { contentBlocks: "content" },
  };
}

function langGraphClass(tag: string, make: () => object, rest: Partial<InstanceClass> = {}): InstanceClass {
  return { tag, make, marks: (value) => (value as { lg_name?: unknown }).lg_name === tag, ...rest };
}

export const INSTANCE_CLASSES: readonly InstanceClass[] = [
  ...Object.entries(MESSAGE_CLASSES).map(([tag, type]) => messageClass(tag, type)),
  {
    tag: "Document",
    make: () => new Document({ pageContent: "", metadata: {} }),
    marks: (value) => typeof (value as Document).pageContent === "string" && Object.hasOwn(value, "metadata"),
  },
  langGraphClass("Send", () => new Send("", undefined)),
  langGraphClass("Command", () => new Command({}), { symbol: COMMAND_SYMBOL, args: COMMAND_SYMBOL, keepStaleArgs: true }),
  langGraphClass("Overwrite", () => new Overwrite(undefined)),
  langGraphClass("DeltaSnapshot", () => new DeltaSnapshot(undefined)),
];
