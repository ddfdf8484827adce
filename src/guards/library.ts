import { tool } from "@langchain/core/tools";
import { entrypoint, messagesStateReducer } from "@langchain/langgraph";
import { z } from "zod";
import { field } from "./fields";

/**
 * Classes whose source says nothing about the user's work: LangChain's and LangGraph's own, by name, because the ESM and the CommonJS
 * build of a package have two of each. What a user's class adds to them counts, down to the first of these.
 */
export const LIBRARY_CLASSES: ReadonlySet<string> = new Set([
  ...["Object", "Function", "Serializable", "Runnable", "RunnableLambda", "RunnableSequence", "RunnableMap", "RunnableParallel"],
  ...["RunnableBinding", "RunnableRetry", "RunnableEach", "RunnableWithFallbacks", "RunnableAssign", "RunnablePick"],
  ...["RunnableBranch", "RunnablePassthrough", "RouterRunnable", "RunnableCallable", "RunnableWithMessageHistory"],
  ...["RunnableToolLike", "ToolNode", "ChannelWrite", "PregelNode", "Pregel", "PartialRunnable", "CompiledGraph"],
  ...["CompiledStateGraph", "RemoteGraph", "BaseLangChain", "BaseTool", "StructuredTool", "Tool", "DynamicTool"],
  ...["DynamicStructuredTool", "BasePromptTemplate", "BaseStringPromptTemplate", "PromptTemplate", "BaseChatPromptTemplate"],
  ...["ChatPromptTemplate", "BaseMessagePromptTemplate", "HumanMessagePromptTemplate", "AIMessagePromptTemplate"],
  ...["SystemMessagePromptTemplate", "ChatMessagePromptTemplate", "MessagesPlaceholder", "BaseOutputParser"],
  ...["BaseTransformOutputParser", "StringOutputParser", "BaseLLMOutputParser"],
]);

let wrappers: ReadonlySet<unknown> | undefined;

/**
 * Whether this is the source of a function in which a library hides a user's: `tool(fn)` and `entrypoint(fn)` keep it in a closure,
 * where nobody sees it. Told by making one of each, so that it holds for every version of the libraries.
 */
export function hidesFunction(source: string): boolean {
  wrappers ??= new Set(
    [
      field(
        tool(() => "", { name: "x", description: "x", schema: z.object({ x: z.string() }) }),
        "func",
      ),
      field(
        tool(() => "", { name: "x", description: "x" }),
        "func",
      ),
      field(field(entrypoint({ name: "x" }, () => Promise.resolve()).nodes["x"], "bound"), "func"),
    ].map((wrapper) => (typeof wrapper === "function" ? Function.prototype.toString.call(wrapper) : undefined)),
  );
  return wrappers.has(source);
}

/** LangGraph's own functions that users pass by reference, by name: an update of LangGraph is no change of the user's graph. */
export function libraryName(value: unknown): string | undefined {
  return value === messagesStateReducer ? "messagesStateReducer" : undefined;
}
