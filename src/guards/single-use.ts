import type { Syntax } from "./parse-javascript";
import type { Binding } from "./resolve-names";

/**
 * Moves the value of a variable to where it is used, if that is once and in the next statement, and nothing in between could run
 * or change: `const x = f(); return g(x)` becomes `return g(f())`, as minifiers write it.
 *
 * @param statements of one block; statements that take up a value are changed in place
 * @param simple takes a changed statement apart
 */
export function withoutSingleUse(statements: readonly Syntax[], simple: (statement: Syntax) => Syntax[]): Syntax[] {
  const kept: Syntax[] = [];
  for (const statement of statements) {
    let isChanged = false;
    for (let used = usedOnce(kept.at(-1)); used !== undefined; used = usedOnce(kept.at(-1))) {
      const first = firstOf(statement);
      if (first === undefined || moved(first, used) !== "moved") break;
      kept.pop();
      isChanged = true;
    }
    kept.push(...(isChanged ? simple(statement) : [statement]));
  }
  return kept;
}

interface Used {
  binding: Binding;
  value: Syntax;
}

function usedOnce(statement: Syntax | undefined): Used | undefined {
  if (statement?.type !== "VariableDeclaration" || statement["kind"] === "var") return undefined;
  const [{ id, init }] = statement["declarations"] as [{ id: Syntax; init: Syntax | null }];
  if (id.type !== "Local" || init === null) return undefined;
  const binding = id["binding"] as Binding;
  return binding.reads === 1 && binding.writes === 0 ? { binding, value: init } : undefined;
}

/** What a statement evaluates first, and once. */
function firstOf(node: Syntax): Syntax | undefined {
  switch (node.type) {
    case "ReturnStatement":
    case "ThrowStatement":
      return (node["argument"] ?? undefined) as Syntax | undefined;
    case "ExpressionStatement":
      return node["expression"] as Syntax;
    case "IfStatement":
      return node["test"] as Syntax;
    case "SwitchStatement":
      return node["discriminant"] as Syntax;
    case "VariableDeclaration":
      return (node["declarations"] as { init: Syntax | null }[])[0]?.init ?? undefined;
    case "ForOfStatement":
    case "ForInStatement":
      return node["right"] as Syntax;
    default:
      return undefined;
  }
}

/** `passed`: evaluating it neither does anything nor depends on anything that could change. */
type Found = "moved" | "passed" | "stopped";

/** Moves the value to where the variable is read, if everything evaluated before can be passed. */
function moved(node: Syntax, used: Used): Found {
  const all = (parts: readonly (Syntax | null)[], otherwise: Found): Found => {
    for (const part of parts) {
      const found = part === null ? "passed" : moved(part, used);
      if (found !== "passed") return found;
    }
    return otherwise;
  };
  const part = (key: string): Syntax => node[key] as Syntax;
  switch (node.type) {
    case "Local": {
      const binding = node["binding"] as Binding;
      if (binding === used.binding) {
        delete node["binding"];
        Object.assign(node, used.value);
        return "moved";
      }
      return binding.writes === 0 && binding.kind !== "var" ? "passed" : "stopped";
    }
    case "Literal":
    case "ThisExpression":
    case "FunctionExpression":
    case "ArrowFunctionExpression":
      return "passed";
    case "ArrayExpression":
      return all(node["elements"] as (Syntax | null)[], "passed");
    case "ObjectExpression":
      return all(
        (node["properties"] as Syntax[]).map((property) =>
          property.type === "Property" && property["computed"] !== true ? (property["value"] as Syntax) : property,
        ),
        "passed",
      );
    case "CallExpression":
    case "NewExpression":
      return all([part("callee"), ...(node["arguments"] as Syntax[])], "stopped");
    case "MemberExpression":
      return all(node["computed"] === true ? [part("object"), part("property")] : [part("object")], "stopped");
    case "ChainExpression":
      return all([part("expression")], "stopped");
    case "TaggedTemplateExpression":
      return all([part("tag")], "stopped");
    case "TemplateLiteral":
      return all([(node["expressions"] as Syntax[])[0] ?? null], "stopped");
    case "BinaryExpression":
      return all([part("left"), part("right")], /^[!=]==$/.test(node["operator"] as string) ? "passed" : "stopped");
    case "LogicalExpression":
      return all([part("left")], "stopped");
    case "ConditionalExpression":
      return all([part("test")], "stopped");
    case "AwaitExpression":
    case "SpreadElement":
      return all([part("argument")], "stopped");
    case "UnaryExpression":
      return all([part("argument")], /^(?:!|typeof|void)$/.test(node["operator"] as string) ? "passed" : "stopped");
    case "AssignmentExpression":
      return node["operator"] === "=" && part("left").type === "Local" ? all([part("right")], "stopped") : "stopped";
    default:
      return "stopped";
  }
}
