// Under tsx, a module of JavaScript isn't given to tsx a second time, which would change the nodes' sources.
export { invoice, lighthouse as default, report, support } from "../../examples/lighthouse/agent.ts";
