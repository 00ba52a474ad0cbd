# SPDX-License-Identifier: Apache-2.0
"""Kubernetes 1.37's feature gates: their stages, defaults and dependencies."""

from __future__ import annotations

from typing import Final

import msgspec


class FeatureStage(msgspec.Struct, frozen=True):
    """Maturity of a group of gates; locked gates can't be changed."""

    name: str
    default: bool
    lock_to_default: bool


GATES: Final = {
    FeatureStage("Alpha", False, False): """
        APIServerWebhookAuthenticationToken APIServingWithRoutine AtomicWriteVolumeUserFields CBORServingAndStorage
        CPUManagerPolicyAlphaOptions CRIListStreaming CSIVolumeHealth ClientsAllowCBOR ClientsPreferCBOR
        CloudControllerManagerWatchBasedRoutesReconciliation CloudControllerManagerWebhook CompositePodGroup
        ConsistentListFromCacheSkipTimeoutFallback ContainerStopSignals
        ControllerManagerReleaseLeaderElectionLockOnExit CrossNamespaceVolumeDataSource DRADerivedAttributes
        DRADeviceCompatibilityGroups DRAListTypeAttributes DRANodeAllocatableResources DRAOptionalNodeOperations
        DRAPartitionableDevicesType DRAResourcePoolStatus DefaultPodSysctls EmptyDirVolumeMode EventedPLEG
        EvictionRequestAPI GRPCContainerProbeTLS H2CContainerProbe ImageVolumeWithDigest
        InPlacePodVerticalScalingExclusiveCPUs InPlacePodVerticalScalingExclusiveMemory
        InPlacePodVerticalScalingMemoryBackedVolumes InPlacePodVerticalScalingSchedulerPreemption
        InterPodAffinityHostnameFastPath KubeProxyNFTablesLocalhostNodePorts KubeletAllocatedPodsEndpoint
        LoggingAlphaOptions MutablePVNodeAffinity NodeLifecycleConditions PodGroupPreemptionPolicy
        PodLogsQuerySplitStreams QOSReserved ReduceDefaultCrashLoopBackOffDecay RuntimeClassInImageCriApi
        SchedulerPreQueueingHints ShardedListAndWatch StatefulSetRecreateStrategy StorageVersionAPI
        TaintTolerationComparisonOperators TopologyAwareWorkloadScheduling TopologyManagerPolicyAlphaOptions
        UserNamespacesHostNetworkSupport VolumeBindMountOptions WindowsCPUAndMemoryAffinity WorkloadWithJob
    """,
    FeatureStage("Beta", False, False): """
        CoordinatedLeaderElection DRAWorkloadResourceClaims GenericWorkload
        LocalStorageCapacityIsolationFSQuotaMonitoring PodAndContainerStatsFromCRI PodLevelResourceManagers
        SchedulerAsyncAPICalls
    """,
    FeatureStage("Beta", True, False): """
        APIResponseCompression APIServerIdentity AllowParsingUserUIDFromCertAuth AllowUnsafeMalformedObjectDeletion
        AtomicFIFO AuthorizePodWebsocketUpgradeCreatePermission CPUManagerPolicyBetaOptions
        CRDObservedGenerationTracking ClearingNominatedNodeNameAfterBinding ClientsAllowCARotation
        ClientsAllowTLSCacheGC ComponentFlagz ComponentStatusz ConcurrentWatchObjectDecode ConstrainedImpersonation
        ContainerCheckpoint ContainerRestartRules ContextualLogging DRAConsumableCapacity DRADeviceBindingConditions
        DRAFractionalCapacityRange DRAPartitionableDevices DRAResourceClaimGranularStatusAuthorization
        DRASchedulerFilterTimeout DeclarativeValidationBeta DeploymentReplicaSetTerminatingReplicas
        DetectCacheInconsistency EnvFiles EtcdRangeStream ExcludeAdmissionWebhookVirtualResources
        ExtendWebSocketsToKubelet GracefulNodeShutdown GracefulNodeShutdownBasedOnPodPriority HPAGeneration
        HPAOptimizedSelectorStore HPAScaleToZero HugepageAwareEviction InOrderInformersBatchProcess
        InPlacePodLevelResourcesVerticalScaling KubeletCrashLoopBackOffMax KubeletEnsureSecretPulledImages
        KubeletInUserNamespace KubeletSeparateDiskGC KubeletServiceAccountTokenForCredentialProviders
        ListFromCacheSnapshot LoggingBetaOptions ManifestBasedAdmissionControlConfig
        MatchLabelKeysInPodTopologySpread MatchLabelKeysInPodTopologySpreadSelectorMerge MaxUnavailableStatefulSet
        MemoryQoS MutablePodResourcesForSuspendedJobs MutableSchedulingDirectivesForSuspendedJobs NFTablesNetlink
        NativeHistograms NodeControllerLeaseCircuitBreaker NominatedNodeNameForExpectation OpenAPIEnums
        OpportunisticBatching PersistentVolumeClaimUnusedSinceTime PodDeletionCost PodLevelResources
        PodLevelResourcesFixDefaulting PodLevelResourcesFixKubeletQOSClass PodTopologyLabelsAdmission PodsAPI
        PortForwardWebsockets ReloadKubeletClientCAFile ReloadKubeletServerCertificateFile RemoteRequestHeaderUID
        ResourceHealthStatus ResourceHealthStatusMessage RestartAllContainersOnContainerExits
        RotateKubeletServerCertificate SchedulerAsyncPreemption SchedulerPopFromBackoffQ
        ServiceAccountNodeAudienceRestriction SizeBasedListCostEstimate StaleControllerConsistencyDaemonSet
        StaleControllerConsistencyHPA StaleControllerConsistencyJob StaleControllerConsistencyReplicaSet
        StaleControllerConsistencyStatefulSet StatefulSetSemanticRevisionComparison StorageCapacityScoring
        StorageVersionHash StrictIPCIDRValidation StructuredAuthenticationConfigurationEgressSelector
        StructuredAuthenticationConfigurationJWKSMetrics TokenRequestServiceAccountUIDValidation
        TopologyManagerPolicyBetaOptions TranslateStreamCloseWebsocketRequests UnauthenticatedHTTP2DOSMitigation
        UnknownVersionInteroperabilityProxy UnlockWhileProcessingFIFO VolumeLimitScaling WatchList WatchListClient
        WatchListCompression WebhookRoundTripLoadBalancing WindowsGracefulNodeShutdown
    """,
    FeatureStage("GA", True, False): """
        AllowServiceExternalIPs ClusterTrustBundle ClusterTrustBundleProjection CustomCPUCFSQuotaPeriod
        DRADeviceTaintRules DRADeviceTaints InformerResourceVersion MutatingAdmissionPolicy PodCertificateRequest
        SELinuxMount StorageVersionMigrator
    """,
    FeatureStage("GA", True, True): """
        CPUManagerPolicyOptions CRDValidationRatcheting CSIServiceAccountTokenSecrets CustomResourceFieldSelectors
        DRAAdminAccess DRAExtendedResource DRAPrioritizedList DRAResourceClaimDeviceStatus DeclarativeValidation
        DisableAllocatorDualWrite DynamicResourceAllocation ExecProbeTimeout ExternalServiceAccountTokenSigner
        HPAConfigurableTolerance HostnameOverride ImageMaximumGCAge ImageVolume InOrderInformers
        InPlacePodVerticalScaling InPlacePodVerticalScalingInitContainers JobManagedBy KubeletCgroupDriverFromCRI
        KubeletFineGrainedAuthz KubeletPSI KubeletPodResourcesDynamicResources KubeletPodResourcesGet KubeletTracing
        MatchLabelKeysInPodAffinity MultiCIDRServiceAllocator MutableCSINodeAllocatableCount NFTablesProxyMode
        NodeDeclaredFeatures NodeInclusionPolicyInPodTopologySpread NodeLogQuery NodeSwap PLEGOnDemandRelist
        PodObservedGenerationTracking PodReadyToStartContainersCondition PodSchedulingReadiness
        PreferSameTrafficDistribution ProcMountType RecoverVolumeExpansionFailure RecursiveReadOnlyMounts
        RelaxedEnvironmentVariableValidation RelaxedServiceNameValidation SELinuxChangePolicy
        SELinuxMountReadWriteOncePod SeparateTaintEvictionController ServiceAccountTokenJTI
        ServiceAccountTokenNodeBinding ServiceAccountTokenNodeBindingValidation ServiceAccountTokenPodNodeInfo
        SupplementalGroupsPolicy SystemdWatchdog TopologyManagerPolicyOptions UserNamespacesSupport
        VolumeAttributesClass WatchCacheInitializationPostStartHook WinDSR WinOverlay
    """,
    FeatureStage("Deprecated", False, False): """
        AllowDNSOnlyNodeCSR AllowInsecureKubeletCertificateSigningRequests ChangeContainerStatusOnKubeletRestart
        KMSv1 KubeletRegistrationGetOnExistsOnly WindowsHostNetwork
    """,
    FeatureStage("Deprecated", True, False): """
        KubeProxyIPVS KubeletPodResourcesListUseActivePods ServiceCIDRStatusFieldWiping StorageNamespaceIndex
    """,
    FeatureStage("Deprecated", True, True): """
        AggregatedDiscoveryRemoveBetaType DisableCPUQuotaWithExclusiveCPUs DisableNodeKubeProxyVersion
    """,
    FeatureStage("Deprecated", False, True): """
        AllowOverwriteTerminationGracePeriodSeconds DeclarativeValidationTakeover GitRepoVolumeDriver
        SeparateCacheWatchRPC
    """,
}
# Dependencies: an enabled gate requires these.
DEPENDENCIES: Final = {
    "ClusterTrustBundleProjection": "ClusterTrustBundle",
    "CompositePodGroup": "GenericWorkload TopologyAwareWorkloadScheduling",
    "DRAAdminAccess": "DynamicResourceAllocation",
    "DRAConsumableCapacity": "DynamicResourceAllocation",
    "DRADerivedAttributes": "DynamicResourceAllocation",
    "DRADeviceBindingConditions": "DynamicResourceAllocation DRAResourceClaimDeviceStatus",
    "DRADeviceCompatibilityGroups": "DynamicResourceAllocation DRAPartitionableDevices",
    "DRADeviceTaintRules": "DRADeviceTaints",
    "DRADeviceTaints": "DynamicResourceAllocation",
    "DRAExtendedResource": "DynamicResourceAllocation",
    "DRAFractionalCapacityRange": "DRAConsumableCapacity",
    "DRAListTypeAttributes": "DynamicResourceAllocation",
    "DRANodeAllocatableResources": "DynamicResourceAllocation",
    "DRAOptionalNodeOperations": "DynamicResourceAllocation NodeDeclaredFeatures",
    "DRAPartitionableDevices": "DynamicResourceAllocation",
    "DRAPartitionableDevicesType": "DynamicResourceAllocation DRAPartitionableDevices DRAResourcePoolStatus",
    "DRAPrioritizedList": "DynamicResourceAllocation",
    "DRAResourceClaimGranularStatusAuthorization": "DynamicResourceAllocation DRAResourceClaimDeviceStatus",
    "DRAResourcePoolStatus": "DynamicResourceAllocation",
    "DRASchedulerFilterTimeout": "DynamicResourceAllocation",
    "DRAWorkloadResourceClaims": "DynamicResourceAllocation GenericWorkload",
    "DeclarativeValidationBeta": "DeclarativeValidation",
    "DeclarativeValidationTakeover": "DeclarativeValidation",
    "DisableAllocatorDualWrite": "MultiCIDRServiceAllocator",
    "EventedPLEG": "PLEGOnDemandRelist",
    "ExtendWebSocketsToKubelet": "NodeDeclaredFeatures",
    "GracefulNodeShutdownBasedOnPodPriority": "GracefulNodeShutdown",
    "H2CContainerProbe": "NodeDeclaredFeatures",
    "ImageVolumeWithDigest": "ImageVolume",
    "InPlacePodLevelResourcesVerticalScaling": "InPlacePodVerticalScaling PodLevelResources NodeDeclaredFeatures",
    "InPlacePodVerticalScalingExclusiveCPUs": "InPlacePodVerticalScaling",
    "InPlacePodVerticalScalingExclusiveMemory": "InPlacePodVerticalScaling",
    "InPlacePodVerticalScalingInitContainers": "InPlacePodVerticalScaling NodeDeclaredFeatures",
    "InPlacePodVerticalScalingMemoryBackedVolumes": "InPlacePodVerticalScaling NodeDeclaredFeatures",
    "InPlacePodVerticalScalingSchedulerPreemption": "InPlacePodVerticalScaling",
    "KubeletAllocatedPodsEndpoint": "InPlacePodVerticalScaling",
    "MatchLabelKeysInPodTopologySpreadSelectorMerge": "MatchLabelKeysInPodTopologySpread",
    "NodeControllerLeaseCircuitBreaker": "AtomicFIFO",
    "PodGroupPreemptionPolicy": "GenericWorkload",
    "PodLevelResourceManagers": "PodLevelResources",
    "PodLevelResourcesFixDefaulting": "PodLevelResources",
    "PodLevelResourcesFixKubeletQOSClass": "PodLevelResources",
    "ProcMountType": "UserNamespacesSupport",
    "ResourceHealthStatus": "DynamicResourceAllocation",
    "ResourceHealthStatusMessage": "ResourceHealthStatus",
    "RestartAllContainersOnContainerExits": "ContainerRestartRules NodeDeclaredFeatures",
    "ServiceAccountTokenNodeBinding": "ServiceAccountTokenNodeBindingValidation",
    "StaleControllerConsistencyDaemonSet": "AtomicFIFO",
    "StaleControllerConsistencyHPA": "AtomicFIFO",
    "StaleControllerConsistencyJob": "AtomicFIFO",
    "StaleControllerConsistencyReplicaSet": "AtomicFIFO",
    "StaleControllerConsistencyStatefulSet": "AtomicFIFO",
    "StorageVersionAPI": "APIServerIdentity",
    "TopologyAwareWorkloadScheduling": "GenericWorkload",
    "UnknownVersionInteroperabilityProxy": "APIServerIdentity",
    "UserNamespacesHostNetworkSupport": "UserNamespacesSupport NodeDeclaredFeatures",
    "WindowsGracefulNodeShutdown": "GracefulNodeShutdown",
    "WorkloadWithJob": "GenericWorkload",
}
