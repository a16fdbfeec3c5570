"""Small models of timm, transformers, diffusers and torchvision, made from their configurations without weights.

make(name) gives a module that returns a loss, and its inputs. The first TEN are those that are tried by default."""

import torch
from torch import nn

VOCABULARY = 64


class Loss(nn.Module):
    """A model with a loss of what it returns: its own, or the mean square of its first result."""

    def __init__(self, model, **options):
        super().__init__()
        self.model, self.options = model, options

    def forward(self, *inputs, **named):
        result = self.model(*inputs, **named, **self.options)
        if getattr(result, "loss", None) is not None:
            return result.loss
        while not isinstance(result, torch.Tensor):
            result = next(iter(result.values())) if isinstance(result, dict) else result[0]
        return result.float().square().mean()


def declare_torchvision():
    """torchvision's ops may lack their library here (its wheel wants the CUDA build of torch); its models do not need
    it, but their import wants to know these names."""
    try:
        import torchvision  # noqa: F401
        return None
    except Exception:
        pass
    library = torch.library.Library("torchvision", "FRAGMENT")
    for name in ("nms", "qnms"):
        if not hasattr(torch.ops.torchvision, name):
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    return library


def _timm(name, size=32, **options):
    def make():
        import timm
        return Loss(timm.create_model(name, num_classes=10, **options)), (torch.randn(2, 3, size, size),)
    return make


def _vision(name, size=32, **options):
    def make():
        import torchvision
        return Loss(getattr(torchvision.models, name)(num_classes=5, **options)), (torch.randn(2, 3, size, size),)
    return make


SIZES = dict(vocab_size=VOCABULARY, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4)


def _text(model, labels=True, config=None, **options):
    """A model on tokens, which returns its loss if it takes labels."""
    def make():
        import transformers
        kind = getattr(transformers, model)
        settings = config(transformers) if config else kind.config_class(**{**SIZES, **options})
        settings.use_cache = False
        tokens = torch.randint(0, VOCABULARY, (2, 12))
        return Loss(kind(settings)), dict(input_ids=tokens, labels=tokens) if labels else dict(input_ids=tokens)
    return make


def _seq2seq(model, **options):
    def make():
        import transformers
        kind = getattr(transformers, model)
        settings = kind.config_class(**options)
        settings.use_cache = False
        tokens = torch.randint(2, VOCABULARY, (2, 10))
        return Loss(kind(settings)), dict(input_ids=tokens, labels=tokens)
    return make


def _image(model, size=32, **options):
    def make():
        import transformers
        kind = getattr(transformers, model)
        settings = kind.config_class(**options)
        return Loss(kind(settings)), dict(pixel_values=torch.randn(2, 3, size, size))
    return make


def _diffusion():
    import diffusers
    model = diffusers.UNet2DConditionModel(
        sample_size=8, block_out_channels=(16, 32), layers_per_block=1, norm_num_groups=4, cross_attention_dim=16,
        attention_head_dim=4, down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"))
    return Loss(model), (torch.randn(1, 4, 8, 8), torch.tensor(5), torch.randn(1, 6, 16))


def _transformer_2d():
    import diffusers
    model = diffusers.DiTTransformer2DModel(num_attention_heads=2, attention_head_dim=16, in_channels=4, num_layers=2,
                                            sample_size=8, patch_size=2, norm_num_groups=4)
    return Loss(model), dict(hidden_states=torch.randn(2, 4, 8, 8), timestep=torch.tensor([3, 4]),
                             class_labels=torch.tensor([1, 2]))


def _autoencoder():
    import diffusers
    model = diffusers.AutoencoderKL(block_out_channels=(8, 16), norm_num_groups=4, layers_per_block=1, sample_size=16,
                                    down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2)
    return Loss(model, sample_posterior=True), (torch.randn(1, 3, 16, 16),)


def _unet():
    import diffusers
    model = diffusers.UNet2DModel(sample_size=16, block_out_channels=(8, 16), layers_per_block=1, norm_num_groups=4,
                                  attention_head_dim=4, down_block_types=("DownBlock2D", "AttnDownBlock2D"),
                                  up_block_types=("AttnUpBlock2D", "UpBlock2D"))
    return Loss(model), (torch.randn(1, 3, 16, 16), torch.tensor(5))


def _flux():
    import diffusers
    model = diffusers.FluxTransformer2DModel(in_channels=4, num_layers=1, num_single_layers=1, attention_head_dim=16,
                                             num_attention_heads=2, joint_attention_dim=16, pooled_projection_dim=16,
                                             axes_dims_rope=(4, 4, 8))
    return Loss(model), dict(hidden_states=torch.randn(1, 16, 4), encoder_hidden_states=torch.randn(1, 6, 16),
                             pooled_projections=torch.randn(1, 16), timestep=torch.tensor([0.5]),
                             img_ids=torch.randn(16, 3), txt_ids=torch.zeros(6, 3))


def _sd3():
    import diffusers
    model = diffusers.SD3Transformer2DModel(sample_size=8, patch_size=2, in_channels=4, num_layers=2, attention_head_dim=8,
                                            num_attention_heads=4, joint_attention_dim=16, caption_projection_dim=32,
                                            pooled_projection_dim=16, out_channels=4)
    return Loss(model), dict(hidden_states=torch.randn(1, 4, 8, 8), encoder_hidden_states=torch.randn(1, 6, 16),
                             pooled_projections=torch.randn(1, 16), timestep=torch.tensor([3]))


def _segmentation(name, **options):
    def make():
        import torchvision
        kind = getattr(torchvision.models.segmentation, name)
        model = kind(weights=None, weights_backbone=None, num_classes=3, **options)
        return Loss(model), (torch.randn(2, 3, 64, 64),)
    return make


def _speech(model, **options):
    def make():
        import transformers
        kind = getattr(transformers, model)
        return Loss(kind(kind.config_class(**options))), dict(input_values=torch.randn(1, 2000))
    return make


def _whisper():
    import transformers
    settings = transformers.WhisperConfig(**{**ENCODER, "max_position_embeddings": 448}, num_mel_bins=8,
                                          max_source_positions=20, max_target_positions=16, use_cache=False,
                                          suppress_tokens=None, begin_suppress_tokens=None)
    return Loss(transformers.WhisperForConditionalGeneration(settings)), dict(
        input_features=torch.randn(1, 8, 40), labels=torch.randint(2, VOCABULARY, (1, 10)))


def _llava():
    import transformers
    settings = transformers.LlavaConfig(
        vision_config=transformers.CLIPVisionConfig(hidden_size=16, intermediate_size=24, num_hidden_layers=3,
                                                    num_attention_heads=2, image_size=16, patch_size=8),
        text_config=transformers.LlamaConfig(**SIZES, num_key_value_heads=2), image_token_index=3,
        vision_feature_layer=-2, vision_feature_select_strategy="default")
    tokens = torch.randint(4, VOCABULARY, (1, 12))
    tokens[:, 2:6] = 3
    return Loss(transformers.LlavaForConditionalGeneration(settings)), dict(
        input_ids=tokens, labels=tokens, pixel_values=torch.randn(1, 3, 16, 16))


def _clip():
    import transformers
    half = dict(hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=2)
    settings = transformers.CLIPConfig(text_config=dict(half, vocab_size=VOCABULARY, max_position_embeddings=16),
                                       vision_config=dict(half, image_size=16, patch_size=8), projection_dim=16)
    return Loss(transformers.CLIPModel(settings), return_loss=True), dict(
        input_ids=torch.randint(4, VOCABULARY, (2, 8)), pixel_values=torch.randn(2, 3, 16, 16))


def _masked(model, size, **options):
    """A model on images that learns to fill in masked patches, or to make them from noise."""
    def make():
        import transformers
        kind = getattr(transformers, model)
        settings = kind.config_class(**options)
        return Loss(kind(settings)), dict(pixel_values=torch.randn(2, 3, size, size))
    return make


def _time_series():
    import transformers
    settings = transformers.PatchTSTConfig(num_input_channels=3, context_length=16, patch_length=4, patch_stride=4,
                                           d_model=16, num_attention_heads=2, num_hidden_layers=2, ffn_dim=24,
                                           prediction_length=4)
    return Loss(transformers.PatchTSTForPrediction(settings)), dict(past_values=torch.randn(2, 16, 3),
                                                                    future_values=torch.randn(2, 4, 3))


def _perceiver():
    import transformers
    settings = transformers.PerceiverConfig(num_latents=8, d_latents=16, d_model=16, num_blocks=1,
                                            num_self_attends_per_block=2, num_self_attention_heads=2,
                                            num_cross_attention_heads=2, vocab_size=VOCABULARY, max_position_embeddings=12)
    return Loss(transformers.PerceiverForMaskedLM(settings)), dict(inputs=torch.randint(0, VOCABULARY, (2, 12)))


def _speech_mels(model, **options):
    def make():
        import transformers
        kind = getattr(transformers, model)
        return Loss(kind(kind.config_class(**options))), dict(input_values=torch.randn(2, options["max_length"],
                                                                                       options["num_mel_bins"]))
    return make


def _detection():
    import transformers
    settings = transformers.DetrConfig(use_timm_backbone=False, use_pretrained_backbone=False, backbone=None,
                                       backbone_config=transformers.ResNetConfig(embedding_size=8, hidden_sizes=[8, 16],
                                                                                 depths=[1, 1], out_features=["stage2"]),
                                       d_model=16, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2,
                                       decoder_attention_heads=2, encoder_ffn_dim=24, decoder_ffn_dim=24, num_queries=5)
    return Loss(transformers.DetrModel(settings)), dict(pixel_values=torch.randn(1, 3, 32, 32))


def _diffusers(name, inputs, **options):
    """A model of diffusers, and a function that makes its inputs."""
    def make():
        import diffusers
        return Loss(getattr(diffusers, name)(**options)), inputs()
    return make


GPT = dict(n_embd=32, n_layer=2, n_head=4, n_positions=32, n_inner=48)
ENCODER = dict(vocab_size=VOCABULARY, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
               decoder_attention_heads=4, encoder_ffn_dim=48, decoder_ffn_dim=48, pad_token_id=0, bos_token_id=1,
               eos_token_id=2, decoder_start_token_id=1, max_position_embeddings=32)
SIXTEEN = dict(num_key_value_heads=2, head_dim=8)
MODELS = {
    "gpt2": _text("GPT2LMHeadModel", **GPT),
    "gemma2": _text("Gemma2ForCausalLM", **SIXTEEN),
    "resnet18": _timm("resnet18"),
    "bert": _text("BertForMaskedLM"),
    "convnext": _timm("convnext_atto"),
    "llama": _text("LlamaForCausalLM", num_key_value_heads=2),
    "opt": _text("OPTForCausalLM", word_embed_proj_dim=32, ffn_dim=48),
    "unet_condition": _diffusion,
    "vit": _timm("vit_tiny_patch16_224", img_size=32),
    "t5": _seq2seq("T5ForConditionalGeneration", vocab_size=VOCABULARY, d_model=32, d_kv=8, d_ff=48, num_layers=2,
                   num_heads=4, decoder_start_token_id=0),
    "qwen3_moe": _text("Qwen3MoeForCausalLM", num_experts=4, num_experts_per_tok=2, moe_intermediate_size=24, **SIXTEEN),
    "mixtral": _text("MixtralForCausalLM", num_key_value_heads=2, num_local_experts=4, num_experts_per_tok=2),
    "bart": _seq2seq("BartForConditionalGeneration", **ENCODER),
    "qwen2": _text("Qwen2ForCausalLM", num_key_value_heads=2),
    "qwen3": _text("Qwen3ForCausalLM", **SIXTEEN),
    "mistral": _text("MistralForCausalLM", num_key_value_heads=2),
    "phi": _text("PhiForCausalLM"),
    "phi3": _text("Phi3ForCausalLM", num_key_value_heads=2, pad_token_id=0),
    "gemma": _text("GemmaForCausalLM", **SIXTEEN),
    "gptneox": _text("GPTNeoXForCausalLM"),
    "bloom": _text("BloomForCausalLM", n_layer=2, n_head=4),
    "falcon": _text("FalconForCausalLM"),
    "mamba": _text("MambaForCausalLM", state_size=4, time_step_rank=4),
    "roberta": _text("RobertaForMaskedLM", max_position_embeddings=32),
    "distilbert": _text("DistilBertForMaskedLM", dim=32, n_layers=2, n_heads=4, hidden_dim=48),
    "electra": _text("ElectraForMaskedLM", embedding_size=16),
    "albert": _text("AlbertForMaskedLM", embedding_size=16),
    "deberta": _text("DebertaV2ForMaskedLM"),
    "olmo": _text("OlmoForCausalLM"),
    "stablelm": _text("StableLmForCausalLM", num_key_value_heads=2),
    "marian": _seq2seq("MarianMTModel", **ENCODER),
    "segformer": _image("SegformerForSemanticSegmentation", 64, hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1],
                        decoder_hidden_size=16, num_labels=4),
    "swinv2": _image("Swinv2Model", 32, image_size=32, patch_size=2, embed_dim=16, depths=[1, 1], num_heads=[2, 4],
                     window_size=4),
    "dinov2": _image("Dinov2Model", 28, image_size=28, hidden_size=32, num_hidden_layers=2, num_attention_heads=4),
    "resnet18d": _timm("resnet18d"),
    "resnext": _timm("resnext26ts"),
    "efficientnet": _timm("efficientnet_lite0"),
    "mobilenetv3": _timm("mobilenetv3_small_050"),
    "regnet": _timm("regnetx_002"),
    "densenet121": _timm("densenet121"),
    "mixer": _timm("mixer_s32_224", img_size=32),
    "deit": _timm("deit_tiny_patch16_224", img_size=32),
    "levit": _timm("levit_128s", 224),
    "ghostnet": _timm("ghostnet_050"),
    "repvgg": _timm("repvgg_a0"),
    "dit": _transformer_2d,
    "squeezenet": _vision("squeezenet1_1"),
    "shufflenet": _vision("shufflenet_v2_x0_5"),
    "mnasnet": _vision("mnasnet0_5"),
    "googlenet": _vision("googlenet", 64, aux_logits=False, init_weights=False),
    "deepseek_v3": _text("DeepseekV3ForCausalLM", num_key_value_heads=4, n_routed_experts=4, num_experts_per_tok=2,
                         moe_intermediate_size=16, n_shared_experts=1, n_group=2, topk_group=1, first_k_dense_replace=1,
                         q_lora_rank=8, kv_lora_rank=8, qk_rope_head_dim=4, qk_nope_head_dim=4, v_head_dim=8),
    "switch": _seq2seq("SwitchTransformersForConditionalGeneration", vocab_size=VOCABULARY, d_model=32, d_kv=8, d_ff=48,
                       num_layers=2, num_sparse_encoder_layers=1, num_decoder_layers=2, num_sparse_decoder_layers=1,
                       num_heads=4, num_experts=4, decoder_start_token_id=0),
    "olmoe": _text("OlmoeForCausalLM", num_key_value_heads=2, num_experts=4, num_experts_per_tok=2),
    "whisper": _whisper,
    "llava": _llava,
    "clip": _clip,
    "wav2vec2": _speech("Wav2Vec2Model", hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
                        intermediate_size=24, conv_dim=(8, 8, 8), conv_stride=(5, 2, 2), conv_kernel=(10, 3, 3),
                        num_conv_pos_embeddings=8, num_conv_pos_embedding_groups=2, mask_time_prob=0.0),
    "gptj": _text("GPTJForCausalLM", n_embd=32, n_layer=2, n_head=4, n_positions=32, rotary_dim=4),
    "gpt_neo": _text("GPTNeoForCausalLM", attention_types=[[["global", "local"], 1]], num_layers=2, num_heads=4,
                     max_position_embeddings=32),
    "codegen": _text("CodeGenForCausalLM", n_embd=32, n_layer=2, n_head=4, n_positions=32, rotary_dim=4),
    "xlnet": _text("XLNetLMHeadModel", d_model=32, n_layer=2, n_head=4, d_inner=48),
    "granite": _text("GraniteForCausalLM", num_key_value_heads=2),
    "cohere": _text("CohereForCausalLM", num_key_value_heads=2),
    "gemma3": _text("Gemma3ForCausalLM", **SIXTEEN),
    "mpt": _text("MptForCausalLM", d_model=32, n_layers=2, n_heads=4),
    "starcoder2": _text("Starcoder2ForCausalLM", num_key_value_heads=2),
    "autoencoder_kl": _autoencoder,
    "unet_2d": _unet,
    "flux": _flux,
    "sd3": _sd3,
    "deeplabv3": _segmentation("deeplabv3_mobilenet_v3_large"),
    "lraspp": _segmentation("lraspp_mobilenet_v3_large"),
    "swin_t": _vision("swin_t"),
    "maxvit": _timm("maxvit_rmlp_pico_rw_256", 64, img_size=64),
    "convnextv2": _timm("convnextv2_atto"),
    "beit": _timm("beit_base_patch16_224", 32, img_size=32, depth=2, embed_dim=48, num_heads=4),
    "res2net": _timm("res2net50_14w_8s"),
    "hrnet": _timm("hrnet_w18_small", 64),
    "nfnet": _timm("nfnet_l0", 64),
    "efficientformer": _timm("efficientformer_l1", 224),
    "coatnet": _timm("coatnet_nano_rw_224", 64, img_size=64),
    "poolformer": _timm("poolformer_s12", 64),
    "gpt_oss": _text("GptOssForCausalLM", num_local_experts=4, num_experts_per_tok=2, **SIXTEEN),
    "qwen2_moe": _text("Qwen2MoeForCausalLM", num_key_value_heads=2, num_experts=4, num_experts_per_tok=2,
                       moe_intermediate_size=16, shared_expert_intermediate_size=16),
    "jetmoe": _text("JetMoeForCausalLM", num_key_value_heads=2, kv_channels=8, num_local_experts=4, num_experts_per_tok=2),
    "granite_moe": _text("GraniteMoeForCausalLM", num_key_value_heads=2, num_local_experts=4, num_experts_per_tok=2),
    "phimoe": _text("PhimoeForCausalLM", num_key_value_heads=2, num_local_experts=4),
    "smollm3": _text("SmolLM3ForCausalLM", num_key_value_heads=2, pad_token_id=0),
    "olmo2": _text("Olmo2ForCausalLM", num_key_value_heads=2),
    "cohere2": _text("Cohere2ForCausalLM", **SIXTEEN),
    "glm4": _text("Glm4ForCausalLM", pad_token_id=0, **SIXTEEN),
    "exaone4": _text("Exaone4ForCausalLM", num_key_value_heads=2),
    "nemotron": _text("NemotronForCausalLM", num_key_value_heads=2, head_dim=8),
    "persimmon": _text("PersimmonForCausalLM"),
    "biogpt": _text("BioGptForCausalLM"),
    "xglm": _text("XGLMForCausalLM", d_model=32, ffn_dim=48, num_layers=2, attention_heads=4),
    "ctrl": _text("CTRLLMHeadModel", n_embd=32, n_layer=2, n_head=4, dff=48, n_positions=32),
    "recurrent_gemma": _text("RecurrentGemmaForCausalLM", lru_width=32, num_key_value_heads=1),
    "mamba2": _text("Mamba2ForCausalLM", state_size=8, num_heads=8, head_dim=8, n_groups=1, chunk_size=4),
    "falcon_mamba": _text("FalconMambaForCausalLM", state_size=4, time_step_rank=4),
    "rwkv": _text("RwkvForCausalLM", attention_hidden_size=32, context_length=16),
    "modernbert": _text("ModernBertForMaskedLM", pad_token_id=0, max_position_embeddings=32),
    "longformer": _text("LongformerForMaskedLM", attention_window=[4, 4], max_position_embeddings=32),
    "bigbird": _text("BigBirdForMaskedLM", attention_type="original_full", max_position_embeddings=32),
    "convbert": _text("ConvBertForMaskedLM", embedding_size=16),
    "mpnet": _text("MPNetForMaskedLM", max_position_embeddings=32),
    "fnet": _text("FNetForMaskedLM", max_position_embeddings=32),
    "nystromformer": _text("NystromformerForMaskedLM", max_position_embeddings=32, segment_means_seq_len=12,
                           num_landmarks=4),
    "squeezebert": _text("SqueezeBertForMaskedLM", embedding_size=32, max_position_embeddings=32),
    "ibert": _text("IBertForMaskedLM", max_position_embeddings=32),
    "layoutlm": _text("LayoutLMForMaskedLM", max_position_embeddings=32),
    "rembert": _text("RemBertForMaskedLM", input_embedding_size=16, output_embedding_size=16),
    "perceiver": _perceiver,
    "pegasus": _seq2seq("PegasusForConditionalGeneration", **ENCODER),
    "blenderbot": _seq2seq("BlenderbotForConditionalGeneration", **ENCODER),
    "mt5": _seq2seq("MT5ForConditionalGeneration", vocab_size=VOCABULARY, d_model=32, d_kv=8, d_ff=48, num_layers=2,
                    num_heads=4, decoder_start_token_id=0),
    "longt5": _seq2seq("LongT5ForConditionalGeneration", vocab_size=VOCABULARY, d_model=32, d_kv=8, d_ff=48, num_layers=2,
                       num_heads=4, decoder_start_token_id=0, local_radius=4),
    "prophetnet": _seq2seq("ProphetNetForConditionalGeneration", vocab_size=VOCABULARY, hidden_size=32, encoder_ffn_dim=48,
                           decoder_ffn_dim=48, num_encoder_layers=1, num_decoder_layers=1, num_encoder_attention_heads=4,
                           num_decoder_attention_heads=4, max_position_embeddings=32),
    "vit_mae": _masked("ViTMAEForPreTraining", 32, image_size=32, patch_size=8, hidden_size=32, num_hidden_layers=2,
                       num_attention_heads=4, intermediate_size=48, decoder_hidden_size=16, decoder_num_hidden_layers=1,
                       decoder_num_attention_heads=2, decoder_intermediate_size=24),
    "pvt": _image("PvtModel", 32, image_size=32, hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1],
                  num_attention_heads=[1, 2, 2, 4]),
    "mobilevit": _image("MobileViTModel", 64, image_size=64, hidden_sizes=[16, 24, 32],
                        neck_hidden_sizes=[8, 8, 16, 16, 24, 24, 32], num_attention_heads=2),
    "focalnet": _image("FocalNetModel", 32, image_size=32, patch_size=2, embed_dim=8, depths=[1, 1], focal_levels=[1, 1],
                       focal_windows=[3, 3], hidden_sizes=[8, 16]),
    "regnet_hf": _image("RegNetModel", 32, embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], groups_width=4),
    "dpt": _image("DPTForSemanticSegmentation", 32, image_size=32, patch_size=8, hidden_size=32, num_hidden_layers=4,
                  num_attention_heads=4, intermediate_size=48, backbone_out_indices=[0, 1, 2, 3],
                  neck_hidden_sizes=[8, 8, 16, 16], fusion_hidden_size=16, num_labels=3),
    "detr": _detection,
    "audio_spectrogram": _speech_mels("ASTModel", hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
                                      intermediate_size=48, max_length=32, num_mel_bins=16, patch_size=8, frequency_stride=8,
                                      time_stride=8),
    "hubert": _speech("HubertModel", hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24,
                      conv_dim=(8, 8, 8), conv_stride=(5, 2, 2), conv_kernel=(10, 3, 3), num_conv_pos_embeddings=8,
                      num_conv_pos_embedding_groups=2, mask_time_prob=0.0),
    "sew": _speech("SEWModel", hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24,
                       conv_dim=(8, 8, 8), conv_stride=(5, 2, 2), conv_kernel=(10, 3, 3), num_conv_pos_embeddings=8,
                       num_conv_pos_embedding_groups=2, mask_time_prob=0.0, squeeze_factor=2),
    "patchtst": _time_series,
    "mobilenet_v2": _vision("mobilenet_v2"),
    "efficientnet_b0": _vision("efficientnet_b0"),
    "resnext50": _vision("resnext50_32x4d"),
    "inception": _vision("inception_v3", 75, aux_logits=False, init_weights=False),
    "fcn": _segmentation("fcn_resnet50"),
    "xcit": _timm("xcit_nano_12_p8_224", img_size=32),
    "cait": _timm("cait_xxs24_224", img_size=32, depth=2),
    "ecaresnet": _timm("ecaresnet26t"),
    "dla": _timm("dla34"),
    "vovnet": _timm("ese_vovnet19b_dw"),
    "gcresnet": _timm("gcresnet33ts"),
    "mobileone": _timm("mobileone_s0"),
    "fastvit": _timm("fastvit_t8", 64),
    "edgenext": _timm("edgenext_xx_small", 64),
    "unet_scale_shift": _diffusers("UNet2DConditionModel",
                                  lambda: (torch.randn(1, 4, 8, 8), torch.tensor(5), torch.randn(1, 6, 16)), sample_size=8,
                                  block_out_channels=(16, 32), layers_per_block=1, norm_num_groups=4,
                                  cross_attention_dim=16, attention_head_dim=4, resnet_time_scale_shift="scale_shift",
                                  down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
                                  up_block_types=("UpBlock2D", "CrossAttnUpBlock2D")),
    "vq_model": _diffusers("VQModel", lambda: (torch.randn(1, 3, 16, 16),), block_out_channels=(8, 16), norm_num_groups=4,
                           layers_per_block=1, num_vq_embeddings=16, down_block_types=("DownEncoderBlock2D",) * 2,
                           up_block_types=("UpDecoderBlock2D",) * 2, latent_channels=4),
    "pixart": _diffusers("PixArtTransformer2DModel", lambda: dict(
        hidden_states=torch.randn(1, 4, 8, 8), encoder_hidden_states=torch.randn(1, 6, 16), timestep=torch.tensor([3]),
        added_cond_kwargs=dict(resolution=None, aspect_ratio=None)), num_attention_heads=2, attention_head_dim=8,
        in_channels=4, num_layers=2, sample_size=8, patch_size=2, cross_attention_dim=16, caption_channels=16,
        use_additional_conditions=False),
}
TEN = 10


def make(name):
    torch.manual_seed(0)
    return MODELS[name]()
