// Where things lie on a node unless somebody says otherwise. README "Files" has the same; the relay has its socket and the
// standalone program's path in native/relay.c.

export const DEFAULT_CNI_SOCKET = '/run/aether/cni.sock';
export const DEFAULT_RELAY_SOCKET = '/run/aether/relay.sock';
export const DEFAULT_ADMIN_SOCKET = '/run/aether/admin.sock';
export const DEFAULT_XDS_SOCKET = '/run/aether/xds.sock';
/** Envoy makes it. */
export const DEFAULT_HEALTH_SOCKET = '/run/aether/health.sock';
export const DEFAULT_PIN_DIR = '/run/aether/netns';
export const DEFAULT_RECORD_DIR = '/var/lib/aether/registry';
/** Beside the records: the agent finds it from --state-dir. */
export const DEFAULT_DELETE_QUEUE_DIR = '/var/lib/aether/delete-queue';
export const DEFAULT_PLUGIN_LOG = '/var/log/aether-cni/plugin.log';

/** The runtime's. */
export const DEFAULT_CNI_CONF_DIR = '/etc/cni/net.d';
/** The runtime's. */
export const DEFAULT_CNI_BIN_DIR = '/opt/cni/bin';
/** The kubelet's. */
export const DEFAULT_KUBELET_PODS_DIR = '/var/lib/kubelet/pods';
