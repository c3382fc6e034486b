// Which chain of the single form's listener takes a connection. Envoy's own tiers never go back, so one service's TCP port
// would hide HTTP of all others there; this tree does, and names every chain once:
//   address of a service with TCP -> its port's chain; else HTTP -> capture; else the shim, or the default chain
import { create } from '@bufbuild/protobuf';
import {
  DestinationIPInputSchema,
  DestinationPortInputSchema,
} from '../gen/envoy/extensions/matching/common_inputs/network/v3/network_inputs_pb.js';
import { type Matcher, MatcherSchema } from '../gen/xds/type/matcher/v3/matcher_pb.js';
import { TCP_MESH_PORT } from '../mesh/constants.ts';
import { CHAIN_CAPTURE, CHAIN_TCP_BLACKHOLE } from '../mesh/names.ts';
import {
  ADDRESS_INPUT,
  allOf,
  cleartextHttp,
  destinationIn,
  matcher,
  notRedirected,
  type OnMatch,
  onPorts,
  rule,
  toChain,
} from './chain-matcher.ts';
import { extension } from './envoy-values.ts';
import type { SingleForm, SingleService } from './single-form.ts';

export function matchSingle(form: SingleForm, { redirectAll }: { readonly redirectAll: boolean }): Matcher {
  const rules = [rule(notRedirected(), CHAIN_TCP_BLACKHOLE)];
  if (redirectAll && form.withoutTcp.length > 0) {
    const nowhere = allOf([onPorts([TCP_MESH_PORT]), destinationIn(form.withoutTcp.map(toRange), 'without_tcp')]);
    rules.push(rule(nowhere, CHAIN_TCP_BLACKHOLE));
  }
  const otherwise = redirectAll ? http() : scopedOtherwise();
  const byAddress = form.services.flatMap((service) =>
    service.addresses.map((address): readonly [string, OnMatch] => [address, matchService(service, redirectAll)]),
  );
  const tree =
    byAddress.length === 0 ? otherwise : choose(ADDRESS_INPUT, DestinationIPInputSchema, { map: byAddress, otherwise });
  return matcher(rules, tree);
}

function matchService({ ports, anyport }: SingleService, redirectAll: boolean): OnMatch {
  const map = ports.map(({ port, chain }): readonly [string, OnMatch] => [String(port), toChain(chain.name)]);
  const otherwise = redirectAll || anyport !== undefined ? http(anyport?.name) : toChain(CHAIN_CAPTURE);
  return choose('port', DestinationPortInputSchema, { map, otherwise });
}

// Cleartext HTTP by authority; the rest to the chain named, or to the listener's default.
function http(chain?: string): OnMatch {
  const otherwise = chain === undefined ? undefined : toChain(chain);
  return { onMatch: { case: 'matcher', value: matcher([rule(cleartextHttp(), CHAIN_CAPTURE)], otherwise) } };
}

function scopedOtherwise(): OnMatch {
  const map: Entry[] = [[String(TCP_MESH_PORT), toChain(CHAIN_TCP_BLACKHOLE)]];
  return choose('port', DestinationPortInputSchema, { map, otherwise: toChain(CHAIN_CAPTURE) });
}

type Entry = readonly [string, OnMatch];

function choose(
  name: string,
  input: typeof DestinationIPInputSchema | typeof DestinationPortInputSchema,
  { map, otherwise }: { readonly map: readonly Entry[]; readonly otherwise: OnMatch },
): OnMatch {
  const value = create(MatcherSchema, {
    matcherType: {
      case: 'matcherTree',
      value: {
        input: extension(name, input),
        treeType: { case: 'exactMatchMap', value: { map: Object.fromEntries(map) } },
      },
    },
    onNoMatch: otherwise,
  });
  return { onMatch: { case: 'matcher', value } };
}

function toRange(address: string) {
  return { addressPrefix: address, prefixLen: address.includes(':') ? 128 : 32 };
}
