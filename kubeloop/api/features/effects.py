# SPDX-License-Identifier: Apache-2.0
"""Effects of feature gates: the components that honor each, and the reason why others have no effect.

Every gate that is not locked to its default is in exactly one place: it is honored by components, or has a reason.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kubeloop.api.features.gates import DEFAULT_FEATURES, STAGES, Features

APISERVER: Final = "kube-apiserver"
CONTROLLER_MANAGER: Final = "kube-controller-manager"
SCHEDULER: Final = "kube-scheduler"
KUBELET: Final = "kubelet"
PROXY: Final = "kube-proxy"
# Gates that change what a component does.
HONORED: Final = {
    APISERVER: """
        AtomicWriteVolumeUserFields CSIVolumeHealth ClusterTrustBundle CompositePodGroup ConstrainedImpersonation
        ContainerStopSignals
        DRADerivedAttributes DRADeviceCompatibilityGroups DRAListTypeAttributes DRANodeAllocatableResources
        DRAOptionalNodeOperations DRAPartitionableDevicesType DRAResourceClaimGranularStatusAuthorization
        DRAResourcePoolStatus DRAWorkloadResourceClaims EmptyDirVolumeMode EvictionRequestAPI
        GRPCContainerProbeTLS GenericWorkload H2CContainerProbe ImageVolumeWithDigest PodCertificateRequest
        PodGroupPreemptionPolicy StorageVersionAPI StorageVersionMigrator TopologyAwareWorkloadScheduling
        VolumeBindMountOptions WorkloadWithJob
    """,
    CONTROLLER_MANAGER: """
        APIServerIdentity ClusterTrustBundle DRADeviceTaintRules DRADeviceTaints DRAResourcePoolStatus
        GenericWorkload HPAScaleToZero PersistentVolumeClaimUnusedSinceTime PodCertificateRequest
        StorageVersionAPI WorkloadWithJob
    """,
    SCHEDULER: """
        CompositePodGroup DRADerivedAttributes DRADeviceCompatibilityGroups DRAListTypeAttributes GenericWorkload
        PodGroupPreemptionPolicy TopologyAwareWorkloadScheduling
    """,
    KUBELET: """
        CPUManagerPolicyAlphaOptions CPUManagerPolicyBetaOptions ContainerCheckpoint CustomCPUCFSQuotaPeriod
        DRAOptionalNodeOperations DRAWorkloadResourceClaims DefaultPodSysctls GracefulNodeShutdown
        GracefulNodeShutdownBasedOnPodPriority KubeletCrashLoopBackOffMax KubeletEnsureSecretPulledImages
        KubeletServiceAccountTokenForCredentialProviders MemoryQoS ResourceHealthStatus ResourceHealthStatusMessage
        RotateKubeletServerCertificate
    """,
    PROXY: """
        AllowServiceExternalIPs
    """,
}
# Gates that change nothing in any component, by reason.
NO_EFFECT: Final = {
    "it concerns the implementation in Go": """
        APIServingWithRoutine AtomicFIFO CBORServingAndStorage ClientsAllowCARotation ClientsAllowCBOR
        ClientsAllowTLSCacheGC ClientsPreferCBOR ConcurrentWatchObjectDecode
        ConsistentListFromCacheSkipTimeoutFallback ContextualLogging DetectCacheInconsistency EtcdRangeStream
        HPAOptimizedSelectorStore InOrderInformersBatchProcess InformerResourceVersion
        InterPodAffinityHostnameFastPath ListFromCacheSnapshot LoggingAlphaOptions LoggingBetaOptions
        NativeHistograms NodeControllerLeaseCircuitBreaker OpportunisticBatching SchedulerAsyncAPICalls
        SchedulerPopFromBackoffQ SchedulerPreQueueingHints SizeBasedListCostEstimate
        StaleControllerConsistencyDaemonSet StaleControllerConsistencyHPA StaleControllerConsistencyJob
        StaleControllerConsistencyReplicaSet StaleControllerConsistencyStatefulSet StorageNamespaceIndex
        UnauthenticatedHTTP2DOSMitigation UnlockWhileProcessingFIFO WatchListClient WatchListCompression
        WebhookRoundTripLoadBalancing
    """,
    "the simulated nodes have no such part": """
        CRIListStreaming ChangeContainerStatusOnKubeletRestart EventedPLEG HugepageAwareEviction
        InPlacePodVerticalScalingExclusiveCPUs InPlacePodVerticalScalingExclusiveMemory
        KubeletAllocatedPodsEndpoint
        KubeletInUserNamespace KubeletRegistrationGetOnExistsOnly KubeletSeparateDiskGC
        LocalStorageCapacityIsolationFSQuotaMonitoring PodAndContainerStatsFromCRI
        PodLevelResourceManagers PodsAPI QOSReserved ReduceDefaultCrashLoopBackOffDecay
        ReloadKubeletClientCAFile ReloadKubeletServerCertificateFile RuntimeClassInImageCriApi SELinuxMount
        TopologyManagerPolicyAlphaOptions TopologyManagerPolicyBetaOptions WindowsCPUAndMemoryAffinity
        WindowsGracefulNodeShutdown WindowsHostNetwork
    """,
    "the service proxy has no such part": """
        KubeProxyIPVS KubeProxyNFTablesLocalhostNodePorts NFTablesNetlink
    """,
    "the cloud controllers have one way to do this": """
        CloudControllerManagerWatchBasedRoutesReconciliation CloudControllerManagerWebhook
    """,
    "the feature cannot be turned off": """
        APIResponseCompression AllowParsingUserUIDFromCertAuth
        AllowUnsafeMalformedObjectDeletion AuthorizePodWebsocketUpgradeCreatePermission
        CRDObservedGenerationTracking ClearingNominatedNodeNameAfterBinding ClusterTrustBundleProjection
        ComponentFlagz ComponentStatusz ContainerRestartRules DRAConsumableCapacity
        DRADeviceBindingConditions DRAFractionalCapacityRange DRAPartitionableDevices DRASchedulerFilterTimeout
        DeclarativeValidationBeta DeploymentReplicaSetTerminatingReplicas EnvFiles
        ExcludeAdmissionWebhookVirtualResources ExtendWebSocketsToKubelet HPAGeneration
        InPlacePodLevelResourcesVerticalScaling KubeletPodResourcesListUseActivePods
        ManifestBasedAdmissionControlConfig
        MatchLabelKeysInPodTopologySpread MatchLabelKeysInPodTopologySpreadSelectorMerge
        MaxUnavailableStatefulSet MutablePodResourcesForSuspendedJobs
        MutableSchedulingDirectivesForSuspendedJobs MutatingAdmissionPolicy NominatedNodeNameForExpectation
        OpenAPIEnums PodDeletionCost PodLevelResources PodLevelResourcesFixDefaulting
        PodLevelResourcesFixKubeletQOSClass PodTopologyLabelsAdmission PortForwardWebsockets
        RemoteRequestHeaderUID RestartAllContainersOnContainerExits SchedulerAsyncPreemption
        ServiceAccountNodeAudienceRestriction ServiceCIDRStatusFieldWiping StatefulSetSemanticRevisionComparison
        StorageCapacityScoring StorageVersionHash StrictIPCIDRValidation
        StructuredAuthenticationConfigurationEgressSelector StructuredAuthenticationConfigurationJWKSMetrics
        TokenRequestServiceAccountUIDValidation TranslateStreamCloseWebsocketRequests
        UnknownVersionInteroperabilityProxy VolumeLimitScaling WatchList
    """,
    "the feature is not implemented": """
        APIServerWebhookAuthenticationToken AllowDNSOnlyNodeCSR AllowInsecureKubeletCertificateSigningRequests
        ControllerManagerReleaseLeaderElectionLockOnExit CoordinatedLeaderElection
        CrossNamespaceVolumeDataSource InPlacePodVerticalScalingMemoryBackedVolumes
        InPlacePodVerticalScalingSchedulerPreemption KMSv1 MutablePVNodeAffinity NodeLifecycleConditions
        PodLogsQuerySplitStreams ShardedListAndWatch StatefulSetRecreateStrategy
        TaintTolerationComparisonOperators UserNamespacesHostNetworkSupport
    """,
}
# Honored gates whose feature is incomplete, by what is missing.
PARTIAL_EFFECT: Final = {
    "the scheduler does not count devices against the resources of nodes": "DRANodeAllocatableResources",
    "no controller creates or reserves the claims of pod groups": "DRAWorkloadResourceClaims",
    "no node reports the health of volumes": "CSIVolumeHealth",
}
_PARTIAL: Final = {name: missing for missing, names in PARTIAL_EFFECT.items() for name in names.split()}
_REASONS: Final = {name: reason for reason, names in NO_EFFECT.items() for name in names.split()}
_HONORED: Final = {component: frozenset(names.split()) for component, names in HONORED.items()}


def ineffective_gates(features: Features, *components: str) -> Iterator[str]:
    """Yield a sentence for each gate that is not at its default and has no, or no full, effect in the components."""
    honored = frozenset[str]().union(*(_HONORED[one] for one in components))
    for name in sorted(features.enabled ^ DEFAULT_FEATURES.enabled):
        value = str(features.is_enabled(name)).lower()
        if name in honored:
            if name in _PARTIAL:
                yield f"feature gate {name}={value} has a partial effect: {_PARTIAL[name]}"
            continue
        others = [component for component, names in _HONORED.items() if name in names]
        reason = f"only {' and '.join(others)} honors it" if others else _REASONS[name]
        if name in _PARTIAL:
            reason += f", and {_PARTIAL[name]}"
        yield f"feature gate {name}={value} has no effect: {reason}"


def unclassified_gates() -> frozenset[str]:
    """Return the gates that can be changed, and are neither honored nor without effect for a reason."""
    changeable = frozenset(name for name, stage in STAGES.items() if not stage.lock_to_default)
    return changeable - frozenset(_REASONS) - frozenset[str]().union(*_HONORED.values())
