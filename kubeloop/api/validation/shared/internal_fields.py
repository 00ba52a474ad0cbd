# SPDX-License-Identifier: Apache-2.0
"""Table of the fields of upstream's internal structures, in their own order and case.

Upstream shows rejected structures in internal form, where names are capitalised and nothing is left out.
`@` stands for the embedded metadata, whose fields keep their wire names. Used by `go_values`.
"""

from __future__ import annotations

from typing import Final

INTERNAL_FIELDS: Final[dict[str, str]] = {
    "AWSElasticBlockStoreVolumeSource": "VolumeID FSType Partition ReadOnly",
    "Affinity": "NodeAffinity PodAffinity PodAntiAffinity",
    "AppArmorProfile": "Type LocalhostProfile",
    "AzureDiskVolumeSource": "DiskName DataDiskURI CachingMode FSType ReadOnly Kind",
    "AzureFilePersistentVolumeSource": "SecretName ShareName ReadOnly SecretNamespace",
    "AzureFileVolumeSource": "SecretName ShareName ReadOnly",
    "CSIPersistentVolumeSource": (
        "Driver VolumeHandle ReadOnly FSType VolumeAttributes ControllerPublishSecretRef NodeStageSecretRef "
        "NodePublishSecretRef ControllerExpandSecretRef NodeExpandSecretRef"
    ),
    "CSIVolumeSource": "Driver ReadOnly FSType VolumeAttributes NodePublishSecretRef",
    "Capabilities": "Add Drop",
    "CephFSPersistentVolumeSource": "Monitors Path User SecretFile SecretRef ReadOnly",
    "CephFSVolumeSource": "Monitors Path User SecretFile SecretRef ReadOnly",
    "CinderPersistentVolumeSource": "VolumeID FSType ReadOnly SecretRef",
    "CinderVolumeSource": "VolumeID FSType ReadOnly SecretRef",
    "ClusterTrustBundleProjection": "Name SignerName LabelSelector Optional Path User",
    "ConfigMapEnvSource": "Name Optional",
    "ConfigMapKeySelector": "Name Key Optional",
    "ConfigMapProjection": "Name Items Optional",
    "ConfigMapVolumeSource": "Name Items DefaultMode Optional DefaultUser",
    "Container": (
        "Name Image Command Args WorkingDir Ports EnvFrom Env Resources ResizePolicy RestartPolicy "
        "RestartPolicyRules VolumeMounts VolumeDevices LivenessProbe ReadinessProbe StartupProbe Lifecycle "
        "TerminationMessagePath TerminationMessagePolicy ImagePullPolicy SecurityContext Stdin StdinOnce TTY"
    ),
    "ContainerPort": "Name HostPort ContainerPort Protocol HostIP",
    "ContainerResizePolicy": "ResourceName RestartPolicy",
    "ContainerRestartRule": "Action ExitCodes",
    "ContainerRestartRuleOnExitCodes": "Operator Values",
    "DaemonSetUpdateStrategy": "Type RollingUpdate",
    "DeploymentStrategy": "Type RollingUpdate",
    "DownwardAPIProjection": "Items",
    "DownwardAPIVolumeFile": "Path FieldRef ResourceFieldRef Mode User",
    "DownwardAPIVolumeSource": "Items DefaultMode DefaultUser",
    "EmptyDirVolumeSource": "Medium SizeLimit Mode",
    "EnvFromSource": "Prefix ConfigMapRef SecretRef",
    "EnvVar": "Name Value ValueFrom",
    "EnvVarSource": "FieldRef ResourceFieldRef ConfigMapKeyRef SecretKeyRef FileKeyRef",
    "EphemeralContainer": (
        "Name Image Command Args WorkingDir Ports EnvFrom Env Resources ResizePolicy RestartPolicy "
        "RestartPolicyRules VolumeMounts VolumeDevices LivenessProbe ReadinessProbe StartupProbe Lifecycle "
        "TerminationMessagePath TerminationMessagePolicy ImagePullPolicy SecurityContext Stdin StdinOnce TTY "
        "TargetContainerName"
    ),
    "EphemeralVolumeSource": "VolumeClaimTemplate",
    "EventSeries": "Count LastObservedTime",
    "EventSource": "Component Host",
    "EvictionResponder": "Name Priority",
    "ExecAction": "Command",
    "FCVolumeSource": "TargetWWNs Lun FSType ReadOnly WWIDs",
    "FileKeySelector": "VolumeName Path Key Optional",
    "FlexPersistentVolumeSource": "Driver FSType SecretRef ReadOnly Options",
    "FlexVolumeSource": "Driver FSType SecretRef ReadOnly Options",
    "FlockerVolumeSource": "DatasetName DatasetUUID",
    "GCEPersistentDiskVolumeSource": "PDName FSType Partition ReadOnly",
    "GRPCAction": "Port Service Mode",
    "GitRepoVolumeSource": "Repository Revision Directory",
    "GlusterfsPersistentVolumeSource": "EndpointsName Path ReadOnly EndpointsNamespace",
    "GlusterfsVolumeSource": "EndpointsName Path ReadOnly",
    "HTTPGetAction": "Path Port Host Scheme HTTPHeaders Protocol",
    "HTTPHeader": "Name Value",
    "HostAlias": "IP Hostnames",
    "HostIP": "IP",
    "HostPathVolumeSource": "Path Type",
    "ISCSIPersistentVolumeSource": (
        "TargetPortal IQN Lun ISCSIInterface FSType ReadOnly Portals DiscoveryCHAPAuth SessionCHAPAuth "
        "SecretRef InitiatorName"
    ),
    "ISCSIVolumeSource": (
        "TargetPortal IQN Lun ISCSIInterface FSType ReadOnly Portals DiscoveryCHAPAuth SessionCHAPAuth "
        "SecretRef InitiatorName"
    ),
    "ImageVolumeSource": "Reference PullPolicy",
    "JobSchedulingConfiguration": "SchedulingPolicy SchedulingConstraints DisruptionMode ResourceClaims",
    "JobSpec": (
        "Parallelism Completions ActiveDeadlineSeconds PodFailurePolicy SuccessPolicy BackoffLimit "
        "BackoffLimitPerIndex MaxFailedIndexes Selector ManualSelector Template TTLSecondsAfterFinished "
        "CompletionMode Suspend PodReplacementPolicy ManagedBy Scheduling"
    ),
    "JobTemplateSpec": "@ Spec",
    "KeyToPath": "Key Path Mode User",
    "Lifecycle": "PostStart PreStop StopSignal",
    "LifecycleHandler": "Exec HTTPGet TCPSocket Sleep",
    "LocalObjectReference": "Name",
    "LocalVolumeSource": "Path FSType",
    "ModifyVolumeStatus": "TargetVolumeAttributesClassName Status",
    "NFSVolumeSource": "Server Path ReadOnly",
    "NodeAffinity": "RequiredDuringSchedulingIgnoredDuringExecution PreferredDuringSchedulingIgnoredDuringExecution",
    "NodeSelector": "NodeSelectorTerms",
    "NodeSelectorRequirement": "Key Operator Values",
    "NodeSelectorTerm": "MatchExpressions MatchFields",
    "ObjectFieldSelector": "APIVersion FieldPath",
    "ObjectReference": "Kind Namespace Name UID APIVersion ResourceVersion FieldPath",
    "PersistentVolumeClaim": "@ Spec Status",
    "PersistentVolumeClaimCondition": "Type Status LastProbeTime LastTransitionTime Reason Message",
    "PersistentVolumeClaimSpec": (
        "AccessModes Selector Resources VolumeName StorageClassName VolumeMode DataSource DataSourceRef "
        "VolumeAttributesClassName"
    ),
    "PersistentVolumeClaimStatus": (
        "Phase AccessModes Capacity Conditions AllocatedResources AllocatedResourceStatuses "
        "CurrentVolumeAttributesClassName ModifyVolumeStatus HealthStatus"
    ),
    "PersistentVolumeClaimTemplate": "@ Spec",
    "PersistentVolumeClaimVolumeSource": "ClaimName ReadOnly",
    "PersistentVolumeSpec": (
        "Capacity GCEPersistentDisk AWSElasticBlockStore HostPath Glusterfs NFS RBD ISCSI Cinder CephFS FC "
        "Flocker FlexVolume AzureFile VsphereVolume Quobyte AzureDisk PhotonPersistentDisk PortworxVolume "
        "ScaleIO Local StorageOS CSI AccessModes ClaimRef PersistentVolumeReclaimPolicy StorageClassName "
        "MountOptions VolumeMode NodeAffinity VolumeAttributesClassName"
    ),
    "PhotonPersistentDiskVolumeSource": "PdID FSType",
    "PodAffinity": "RequiredDuringSchedulingIgnoredDuringExecution PreferredDuringSchedulingIgnoredDuringExecution",
    "PodAffinityTerm": "LabelSelector Namespaces TopologyKey NamespaceSelector MatchLabelKeys MismatchLabelKeys",
    "PodAntiAffinity": (
        "RequiredDuringSchedulingIgnoredDuringExecution PreferredDuringSchedulingIgnoredDuringExecution"
    ),
    "PodCertificateProjection": (
        "SignerName KeyType MaxExpirationSeconds CredentialBundlePath KeyPath CertificateChainPath UserAnnotations User"
    ),
    "PodDNSConfig": "Nameservers Searches Options",
    "PodDNSConfigOption": "Name Value",
    "PodFailurePolicy": "Rules",
    "PodFailurePolicyOnExitCodesRequirement": "ContainerName Operator Values",
    "PodFailurePolicyOnPodConditionsPattern": "Type Status",
    "PodFailurePolicyRule": "Action OnExitCodes OnPodConditions",
    "PodIP": "IP",
    "PodOS": "Name",
    "PodReadinessGate": "ConditionType",
    "PodResourceClaim": "Name ResourceClaimName ResourceClaimTemplateName",
    "PodSchedulingGate": "Name",
    "PodSchedulingGroup": "PodGroupName",
    "PodSecurityContext": (
        "SELinuxOptions WindowsOptions RunAsUser RunAsGroup RunAsNonRoot SupplementalGroups "
        "SupplementalGroupsPolicy FSGroup Sysctls FSGroupChangePolicy SeccompProfile AppArmorProfile "
        "SELinuxChangePolicy"
    ),
    "PodSpec": (
        "Volumes InitContainers Containers EphemeralContainers RestartPolicy TerminationGracePeriodSeconds "
        "ActiveDeadlineSeconds DNSPolicy NodeSelector ServiceAccountName DeprecatedServiceAccount "
        "AutomountServiceAccountToken NodeName HostNetwork HostPID HostIPC ShareProcessNamespace "
        "SecurityContext ImagePullSecrets Hostname Subdomain Affinity SchedulerName Tolerations HostAliases "
        "PriorityClassName Priority DNSConfig ReadinessGates RuntimeClassName EnableServiceLinks "
        "PreemptionPolicy Overhead TopologySpreadConstraints SetHostnameAsFQDN OS HostUsers SchedulingGates "
        "ResourceClaims Resources HostnameOverride SchedulingGroup EvictionResponders"
    ),
    "PodTemplateSpec": "@ Spec",
    "PortworxVolumeSource": "VolumeID FSType ReadOnly",
    "PreferredSchedulingTerm": "Weight Preference",
    "Probe": (
        "Exec HTTPGet TCPSocket GRPC InitialDelaySeconds TimeoutSeconds PeriodSeconds SuccessThreshold "
        "FailureThreshold TerminationGracePeriodSeconds"
    ),
    "ProjectedVolumeSource": "Sources DefaultMode DefaultUser",
    "QuobyteVolumeSource": "Registry Volume ReadOnly User Group Tenant",
    "RBDPersistentVolumeSource": "CephMonitors RBDImage FSType RBDPool RadosUser Keyring SecretRef ReadOnly",
    "RBDVolumeSource": "CephMonitors RBDImage FSType RBDPool RadosUser Keyring SecretRef ReadOnly",
    "ResourceClaim": "Name Request",
    "ResourceFieldSelector": "ContainerName Resource Divisor",
    "ResourceRequirements": "Limits Requests Claims",
    "RollingUpdateDaemonSet": "MaxUnavailable MaxSurge",
    "RollingUpdateDeployment": "MaxUnavailable MaxSurge",
    "RollingUpdateStatefulSetStrategy": "Partition MaxUnavailable",
    "SELinuxOptions": "User Role Type Level",
    "ScaleIOPersistentVolumeSource": (
        "Gateway System SecretRef SSLEnabled ProtectionDomain StoragePool StorageMode VolumeName FSType ReadOnly"
    ),
    "ScaleIOVolumeSource": (
        "Gateway System SecretRef SSLEnabled ProtectionDomain StoragePool StorageMode VolumeName FSType ReadOnly"
    ),
    "SeccompProfile": "Type LocalhostProfile",
    "SecretEnvSource": "Name Optional",
    "SecretKeySelector": "Name Key Optional",
    "SecretProjection": "Name Items Optional",
    "SecretReference": "Name Namespace",
    "SecretVolumeSource": "SecretName Items DefaultMode Optional DefaultUser",
    "SecurityContext": (
        "Capabilities Privileged SELinuxOptions WindowsOptions RunAsUser RunAsGroup RunAsNonRoot "
        "ReadOnlyRootFilesystem AllowPrivilegeEscalation ProcMount SeccompProfile AppArmorProfile"
    ),
    "ServiceAccountTokenProjection": "Audience ExpirationSeconds Path User",
    "ServicePort": "Name Protocol AppProtocol Port TargetPort NodePort",
    "SleepAction": "Seconds",
    "StatefulSetUpdateStrategy": "Type RollingUpdate",
    "StorageOSPersistentVolumeSource": "VolumeName VolumeNamespace FSType ReadOnly SecretRef",
    "StorageOSVolumeSource": "VolumeName VolumeNamespace FSType ReadOnly SecretRef",
    "SuccessPolicy": "Rules",
    "SuccessPolicyRule": "SucceededIndexes SucceededCount",
    "Sysctl": "Name Value",
    "TCPSocketAction": "Port Host",
    "Toleration": "Key Operator Value Effect TolerationSeconds",
    "TopologySpreadConstraint": (
        "MaxSkew TopologyKey WhenUnsatisfiable LabelSelector MinDomains NodeAffinityPolicy NodeTaintsPolicy "
        "MatchLabelKeys"
    ),
    "TypedLocalObjectReference": "APIGroup Kind Name",
    "TypedObjectReference": "APIGroup Kind Name Namespace",
    "UncountedTerminatedPods": "Succeeded Failed",
    "Volume": (
        "Name HostPath EmptyDir GCEPersistentDisk AWSElasticBlockStore GitRepo Secret NFS ISCSI Glusterfs "
        "PersistentVolumeClaim RBD FlexVolume Cinder CephFS Flocker DownwardAPI FC AzureFile ConfigMap "
        "VsphereVolume Quobyte AzureDisk PhotonPersistentDisk Projected PortworxVolume ScaleIO StorageOS CSI "
        "Ephemeral Image"
    ),
    "ResponderStatus": "Name StartTime HeartbeatTime ExpectedCompletionTime CompletionTime Message",
    "TargetResponder": "Name Priority State",
    "VolumeDevice": "Name DevicePath",
    "VolumeHealthCondition": "Status Reason Message",
    "VolumeHealthStatus": "HealthConditions LastTransitionTime",
    "VolumeMount": "Name ReadOnly RecursiveReadOnly MountPath SubPath MountPropagation SubPathExpr BindMountOptions",
    "VolumeNodeAffinity": "Required",
    "VolumeProjection": "Secret DownwardAPI ConfigMap ServiceAccountToken ClusterTrustBundle PodCertificate",
    "VolumeResourceRequirements": "Limits Requests",
    "VsphereVirtualDiskVolumeSource": "VolumePath FSType StoragePolicyName StoragePolicyID",
    "WeightedPodAffinityTerm": "Weight PodAffinityTerm",
    "WindowsSecurityContextOptions": "GMSACredentialSpecName GMSACredentialSpec RunAsUserName HostProcess",
}

# Internal names that differ from the wire names.
RENAMED: Final[dict[str, str]] = {
    "DeprecatedServiceAccount": "service_account",
    "DiscoveryCHAPAuth": "chap_auth_discovery",
    "SessionCHAPAuth": "chap_auth_session",
    "EndpointsName": "endpoints",
    "CephMonitors": "monitors",
    "RBDImage": "image",
    "RBDPool": "pool",
    "RadosUser": "user",
    "DataDiskURI": "disk_uri",
    "LastTerminationState": "last_state",
}
