// From configuration and annotations to the capture policy of one pod; and back to the annotations that tell the agent
// what the plugin decided, so that both program the same.
import type { NetConfig } from '../cni/net-config.ts';
import { type Parsed, ProblemList, quoteValue } from '../core/problems.ts';
import { ANNOTATION_REDIRECT_ALL, MESH_DNS_PORT } from '../mesh/constants.ts';
import {
  type Exclusions,
  formatExclusionAnnotations,
  joinExclusions,
  parseExclusionAnnotations,
  parseExclusions,
} from './parse-exclusions.ts';
import type { CapturePolicy } from './policy.ts';

type Annotations = Readonly<Record<string, string>>;

/** What holds for every pod of the node unless its annotations say otherwise. */
export interface CaptureDefaults {
  readonly redirectAll: boolean;
  readonly exclusions: Exclusions;
  readonly dns?: NonNullable<CapturePolicy['dns']>;
}

type CaptureKeys = Pick<
  NetConfig,
  'meshDnsEnabled' | 'hostIp' | 'redirectAllDefault' | 'excludePorts' | 'excludeRanges'
>;

// The same from call to call: what an administrator wrote.
let last: { readonly config: CaptureKeys; readonly defaults: Parsed<CaptureDefaults> } | undefined;

/** Problems name the configuration's keys: `exclude_outbound_ports[1]`. */
export function parseCaptureDefaults(config: CaptureKeys): Parsed<CaptureDefaults> {
  if (last === undefined || !isSame(last.config, config)) {
    const { meshDnsEnabled, hostIp, redirectAllDefault, excludePorts, excludeRanges } = config;
    const kept = { meshDnsEnabled, redirectAllDefault, excludePorts, excludeRanges };
    last = { config: hostIp === undefined ? kept : { ...kept, hostIp }, defaults: readDefaults(config) };
  }
  return last.defaults;
}

function isSame(a: CaptureKeys, b: CaptureKeys): boolean {
  return (
    a.excludePorts === b.excludePorts &&
    a.excludeRanges === b.excludeRanges &&
    a.redirectAllDefault === b.redirectAllDefault &&
    a.meshDnsEnabled === b.meshDnsEnabled &&
    a.hostIp?.text === b.hostIp?.text
  );
}

function readDefaults(config: CaptureKeys): Parsed<CaptureDefaults> {
  const { meshDnsEnabled, hostIp, redirectAllDefault } = config;
  const list = new ProblemList();
  const exclusions = parseExclusions({
    ports: { path: 'exclude_outbound_ports', text: config.excludePorts },
    ranges: { path: 'exclude_outbound_ip_ranges', text: config.excludeRanges },
  });
  if (exclusions.kind === 'problems') return exclusions;
  list.warnAll(exclusions.warnings);
  return list.finish(() => ({
    redirectAll: redirectAllDefault,
    exclusions: exclusions.value,
    ...(meshDnsEnabled && hostIp !== undefined ? { dns: { address: hostIp, port: MESH_DNS_PORT } } : {}),
  }));
}

/**
 * The pod's exclusions join the node's; `redirect-all` is exactly `true` or `false`, any other text is the node's default
 * (with a warning). Problems name the annotations.
 */
export function parseCapturePolicy(annotations: Annotations, defaults: CaptureDefaults): Parsed<CapturePolicy> {
  const list = new ProblemList();
  const redirectAll = parseRedirectAll(annotations[ANNOTATION_REDIRECT_ALL], defaults.redirectAll, list);
  const own = parseExclusionAnnotations(annotations);
  if (own.kind === 'problems') return own;
  list.warnAll(own.warnings);
  const { ports, ranges } = joinExclusions(defaults.exclusions, own.value);
  const { dns } = defaults;
  return list.finish(() => ({
    redirectAll,
    excludePorts: ports,
    excludeRanges: ranges,
    ...(dns === undefined ? {} : { dns }),
  }));
}

/** All of the pod's annotations, with the policy's mode and exclusions in place of the pod's own. */
export function effectiveAnnotations(annotations: Annotations, policy: CapturePolicy): Annotations {
  return {
    ...annotations,
    [ANNOTATION_REDIRECT_ALL]: String(policy.redirectAll),
    ...formatExclusionAnnotations({ ports: policy.excludePorts, ranges: policy.excludeRanges }),
  };
}

function parseRedirectAll(text: string | undefined, fallback: boolean, list: ProblemList): boolean {
  if (text === 'true' || text === 'false') return text === 'true';
  if (text !== undefined) {
    list.warn(
      ANNOTATION_REDIRECT_ALL,
      `is neither "true" nor "false" but ${quoteValue(text)}: the node's default holds`,
    );
  }
  return fallback;
}
