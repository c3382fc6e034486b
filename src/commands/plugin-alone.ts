// One CNI call done by this process itself, with the agent's gRPC for what is the agent's.
import { answerCall, type CniAnswer, type CniCall } from '../plugin/dispatch.ts';
import { openPluginDeps, type PluginDepsOptions } from './plugin-deps.ts';

/** Never throws. */
export function answerAlone(call: CniCall, options: PluginDepsOptions): Promise<CniAnswer> {
  return answerCall(call, async (config, about) => {
    const deps = await openPluginDeps(config, options);
    return { ...deps, log: deps.log.child(about) };
  });
}
